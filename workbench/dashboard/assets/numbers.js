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
    element.given = Object.keys(attributes);
    element.append(made(what[2]));
    return element;
  }

  // Makes `old` what `fresh` is and keeps the elements that both have, so that focus and scrolling stay where they were.
  function become(old, fresh) {
    if (old.nodeName !== fresh.nodeName) { old.replaceWith(fresh); return; }
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) { old.data = fresh.data; }
      return;
    }
    (old.given || []).forEach(function (name) {  // what other scripts gave it stays
      if (!fresh.hasAttribute(name)) { old.removeAttribute(name); }
    });
    fresh.given.forEach(function (name) {
      var value = fresh.getAttribute(name);
      if (old.getAttribute(name) !== value) { old.setAttribute(name, value); }
    });
    old.given = fresh.given;
    adopt(old, fresh);
  }

  function adopt(old, fresh) {
    var olds = Array.from(old.childNodes), news = Array.from(fresh.childNodes);
    news.forEach(function (node, at) { if (at < olds.length) { become(olds[at], node); } else { old.append(node); } });
    olds.slice(news.length).forEach(function (node) { node.remove(); });
  }

  function fill() {
    document.querySelectorAll(".plain[data-plain]").forEach(function (place) {
      if (place.filled === place.dataset.plain) { return; }
      place.filled = place.dataset.plain;
      var fresh = document.createDocumentFragment();
      if (place.dataset.plain) { fresh.append(made(JSON.parse(place.dataset.plain))); }
      adopt(place, fresh);
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
