// The Heads page: the same head is outlined in every grid of a comparison while the pointer is on one of them, and the
// panel over two subjects keeps its place before the server has told what stands in it.
(function () {
  "use strict";

  function clear() {
    document.querySelectorAll(".cell-outline").forEach(function (outline) { outline.remove(); });
  }

  // Below the text that plotly shows at the pointer.
  function outline(plot, subplot, head, layer) {
    var x = subplot.xaxis, y = subplot.yaxis, above = plot.querySelector(".layer-above");
    var made = document.createElementNS(above.namespaceURI, "rect");
    made.setAttribute("class", "cell-outline");
    made.setAttribute("x", x._offset + x.l2p(head - 0.48));
    made.setAttribute("y", y._offset + y.l2p(layer - 0.47));
    made.setAttribute("width", x.l2p(head + 0.48) - x.l2p(head - 0.48));
    made.setAttribute("height", y.l2p(layer + 0.47) - y.l2p(layer - 0.47));
    above.appendChild(made);
  }

  function point(plot, head, layer) {
    clear();
    var plots = plot._fullLayout._plots, names = Object.keys(plots);
    if (names.length < 3 || plot._fullData[0].type !== "heatmap") { return; }
    names.forEach(function (name) { outline(plot, plots[name], head, layer); });
  }

  function watch() {
    var panel = document.getElementById("heads-beside");
    if (panel && !panel.classList.contains("told")) {
      panel.classList.toggle("coming", new URLSearchParams(window.location.search).has("beside"));
    }
    var plot = document.querySelector("#heads-graph .js-plotly-plot");
    if (!plot || plot.dataset.linked || typeof plot.on !== "function") { return; }
    plot.dataset.linked = "true";
    plot.on("plotly_hover", function (event) {
      var at = event.points && event.points[0];
      if (at) { point(plot, Math.round(at.x), Math.round(at.y)); }
    });
    plot.on("plotly_unhover", clear);
    plot.on("plotly_afterplot", clear);
  }

  new MutationObserver(watch).observe(document.documentElement, { subtree: true, childList: true });
})();
