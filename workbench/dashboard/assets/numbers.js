// Tables of figures: asked for when opened, and again when the figure beside them is drawn anew while they are open.
(function () {
  "use strict";

  var SETTLE = 150;  // milliseconds without another drawing

  function ask(details) {
    window.dash_clientside.set_props(details.dataset.numbers, { data: Date.now() });
  }

  function watch(details) {
    var figure = details.closest("figure");
    var plot = figure && figure.querySelector(".js-plotly-plot"), settling = null;
    if (!plot || plot.dataset.numbered || typeof plot.on !== "function") { return; }
    plot.dataset.numbered = "true";
    plot.on("plotly_afterplot", function () {
      clearTimeout(settling);
      settling = setTimeout(function () { if (details.open && details.isConnected) { ask(details); } }, SETTLE);
    });
  }

  document.addEventListener("toggle", function (event) {
    var details = event.target;
    if (!details.matches || !details.matches("details[data-numbers]") || !details.open) { return; }
    ask(details);
    watch(details);
  }, true);
})();
