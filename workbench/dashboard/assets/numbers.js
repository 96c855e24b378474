// Tables of figures: asked for when opened, and again when the figure beside them is drawn anew while they are open.
(function () {
  "use strict";

  var SETTLE = 150;  // milliseconds without another drawing
  var PATIENCE = 2000;

  // Dash may drop an answer when the page is laid out anew meanwhile: an open table that nobody fills is asked for again.
  function ask(details) {
    window.dash_clientside.set_props(details.dataset.numbers, { data: Date.now() });
    setTimeout(function () {
      var held = details.querySelector(".scroll");
      if (!details.isConnected || !details.open || !held || held.childElementCount) { return; }
      ask(details);
    }, PATIENCE);
  }

  function watch(details) {
    var figure = details.closest("figure");
    var plot = figure && figure.querySelector(".js-plotly-plot"), settling = null;
    if (!plot || plot.dataset.numbered || typeof plot.on !== "function") { return; }
    plot.dataset.numbered = "true";
    var drawn = plot.data;
    plot.on("plotly_afterplot", function () {
      if (plot.data === drawn) { return; }  // another size, as when a table opens, or another zoom: the same numbers
      drawn = plot.data;
      clearTimeout(settling);
      settling = setTimeout(function () { if (details.open && details.isConnected) { ask(details); } }, SETTLE);
    });
  }

  // Elements as workbench/dashboard/numbers.py describes them; all text stays text.
  function made(what) {
    if (typeof what === "string") { return document.createTextNode(what); }
    var attributes = what[1];
    if (what.length !== 3 || typeof attributes !== "object" || Array.isArray(attributes)) {
      var several = document.createDocumentFragment();
      what.forEach(function (part) { several.append(made(part)); });
      return several;
    }
    var element = document.createElement(what[0]);
    if (what[0] === "button") { element.type = "button"; }
    Object.keys(attributes).forEach(function (name) { element.setAttribute(name, attributes[name]); });
    element.append(made(what[2]));
    return element;
  }

  function fill() {
    document.querySelectorAll(".plain[data-plain]").forEach(function (place) {
      if (place.filled === place.dataset.plain) { return; }
      place.filled = place.dataset.plain;
      place.replaceChildren(made(JSON.parse(place.dataset.plain)));
    });
  }

  new MutationObserver(fill).observe(document.documentElement, {
    subtree: true, childList: true, attributes: true, attributeFilter: ["data-plain"]
  });

  document.addEventListener("toggle", function (event) {
    var details = event.target;
    if (!details.matches || !details.matches("details[data-numbers]") || !details.open) { return; }
    ask(details);
    watch(details);
  }, true);
})();
