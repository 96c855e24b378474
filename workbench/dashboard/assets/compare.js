// Checkpoints, comparison and maximised panels: what must not wait for the server.
(function () {
  "use strict";

  var FIELDS = "input, textarea, select, iframe, [contenteditable], [role=listbox], [role=option], [role=combobox], " +
    "[role=menu], [role=dialog], .dash-dropdown, .dash-dropdown-content";

  function within(event, selector) { return event.target.closest ? event.target.closest(selector) : null; }

  // ---- the address ----

  function addressWith(changes) {
    var query = new URLSearchParams(window.location.search);
    Object.keys(changes).forEach(function (name) {
      if (changes[name] === null) { query.delete(name); } else { query.set(name, changes[name]); }
    });
    var text = query.toString().replace(/%3A/g, ":").replace(/%2C/g, ",");
    return window.location.pathname + (text ? "?" + text : "");
  }

  function go(changes, again) {
    var there = addressWith(changes);
    if (there === window.location.pathname + window.location.search) { return; }
    if (!again) { window.dash_clientside.workbench.go(there); return; }
    window.history.replaceState({}, "", there);  // one drag of a slider is one step back
    window.dispatchEvent(new PopStateEvent("popstate"));
  }

  // ---- the slider over checkpoints ----

  var dragging = null;

  function stepsOf(slider) { return slider.dataset.steps.split(","); }

  function choose(slider, at, again) {
    var steps = stepsOf(slider);
    at = Math.max(0, Math.min(steps.length - 1, at));
    var thumb = slider.querySelector("b");
    if (thumb) { thumb.style.left = (100 * at / (steps.length - 1)) + "%"; }
    go({ checkpoint: steps[at] === slider.dataset.rests ? null : steps[at] }, again);
    return at;
  }

  function placeOf(slider, event) {
    var box = slider.getBoundingClientRect();
    return Math.round((event.clientX - box.left) / box.width * (stepsOf(slider).length - 1));
  }

  document.addEventListener("pointerdown", function (event) {
    var slider = within(event, ".steps-slider");
    if (!slider || event.button !== 0) { return; }
    event.preventDefault();
    slider.focus();
    dragging = { at: choose(slider, placeOf(slider, event), false) };
  });

  document.addEventListener("pointermove", function (event) {
    var slider = dragging && document.querySelector(".steps-slider");
    if (!slider) { return; }
    var at = Math.max(0, Math.min(stepsOf(slider).length - 1, placeOf(slider, event)));
    if (at !== dragging.at) { dragging.at = choose(slider, at, true); }
  });

  ["pointerup", "pointercancel"].forEach(function (name) {
    document.addEventListener(name, function () { dragging = null; });
  });

  var MOVES = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -1e9, End: 1e9 };

  document.addEventListener("keydown", function (event) {
    var slider = within(event, ".steps-slider");
    if (!slider || !(event.key in MOVES) || event.metaKey || event.ctrlKey || event.altKey) { return; }
    event.preventDefault();  // which also keeps the key from walking heads
    var query = new URLSearchParams(window.location.search);
    var now = stepsOf(slider).indexOf(query.get("checkpoint") || slider.dataset.rests);
    choose(slider, (now < 0 ? Number(slider.getAttribute("aria-valuenow")) : now) + MOVES[event.key], false);
  }, true);

  // ---- what the second subject has instead ----

  // Choosing one thing forgets what belonged to the thing before it.
  var FORGETS = {
    run: ["of", "capture", "checkpoint", "string", "failure"],
    checkpoint: ["failure"],
    capture: ["of", "string", "text"],
    string: ["text"],
    text: ["of", "capture", "string"]
  };

  var UNREAD = "Give tokens as digits, 0110, or as numbers with dots between, 12.7.3.";

  // A typed string as the address has it, "0110" or "12.7.3"; null where it is none.
  function typed(text) {
    var parts = text.trim().split(/[ .,]+/);
    return text.trim() === "" ? "" : parts.every(function (part) { return /^[0-9]+$/.test(part); }) ? parts.join(".") : null;
  }

  document.addEventListener("change", function (event) {
    var list = within(event, "select[data-beside], #beside-text");
    if (!list) { return; }
    var value = list.tagName === "SELECT" ? list.value : typed(list.value);
    if (list.setCustomValidity) { list.setCustomValidity(value === null ? UNREAD : ""); }
    if (value === null) { list.reportValidity(); return; }
    var named = {}, said = new URLSearchParams(window.location.search).get("beside") || "same";
    if (said !== "same") {
      said.split(",").forEach(function (part) { named[part.split(":")[0]] = part.slice(part.indexOf(":") + 1); });
    }
    var name = list.dataset.beside || "text";
    (FORGETS[name] || []).concat(name === "head" ? ["layer", "head"] : [name]).forEach(function (gone) {
      delete named[gone];
    });
    if (value && name === "head") {
      named.layer = value.split(".")[0];
      named.head = value.split(".")[1];
    } else if (value) {
      named[name] = value;
    }
    var parts = Object.keys(named).map(function (key) { return key + ":" + named[key]; });
    go({ beside: parts.join(",") || "same" });
  });

  document.addEventListener("input", function (event) {
    if (within(event, "#beside-text")) { event.target.setCustomValidity(""); }
  });

  // ---- cursors of maps that show the same rows and keys ----

  var MAPS = ["attention-map", "compare-map", "compare-difference"];

  function plotOf(id) { return document.querySelector("#" + id + " .js-plotly-plot"); }

  function bin(edges, at) {
    for (var low = 0, high = edges.length - 2; low < high;) {
      var middle = (low + high + 1) >> 1;
      if (edges[middle] <= at) { low = middle; } else { high = middle - 1; }
    }
    return edges.length > 1 && at >= edges[0] && at < edges[edges.length - 1] ? low : -1;
  }

  // The value under a query and key; null in the future, undefined outside of the map.
  function valueAt(plot, query, key) {
    var cells = plot && plot._fullData && plot._fullData[0];
    if (!cells || cells.type !== "heatmap" || !cells.z) { return undefined; }
    var row = bin(cells.y, query), column = bin(cells.x, key);
    if (row < 0 || column < 0) { return undefined; }
    var value = cells.z[row][column];
    if (value === null || !Number.isFinite(value)) { return null; }
    if (cells.zmax === 255) { return value === 255 ? null : Math.pow(value / 254, 2); }
    return value;
  }

  function clearCrosshairs() {
    document.querySelectorAll(".crosshair").forEach(function (line) { line.remove(); });
  }

  function line(left, top, width, height) {
    var made = document.createElement("div");
    made.className = "crosshair";
    made.style.cssText = "left:" + left + "px;top:" + top + "px;width:" + width + "px;height:" + height + "px";
    document.body.appendChild(made);
  }

  function crosshair(plot, query, key) {
    var layout = plot && plot._fullLayout, area = plot && plot.querySelector(".nsewdrag");
    if (!layout || !layout.xaxis || !area || valueAt(plot, query, key) === undefined) { return; }
    var box = area.getBoundingClientRect();
    var x = box.left + layout.xaxis.l2p(key), y = box.top + layout.yaxis.l2p(query);
    if (x < box.left || x > box.right || y < box.top || y > box.bottom) { return; }
    line(box.left, y, box.width, 1);
    line(x, box.top, 1, box.height);
  }

  function text(value) {
    if (value === undefined) { return "not in this map"; }
    if (value === null) { return "in the future"; }
    return value > 0 && value < 0.0001 ? "< 0.0001" : value.toFixed(4);
  }

  function signed(value) {
    var told = value.toFixed(4);
    return Number(told) === 0 ? "0.0000" : (value > 0 ? "+" : "") + told;
  }

  function point(from, query, key) {
    clearCrosshairs();
    var readout = document.getElementById("compare-readout");
    if (!readout) { return; }
    MAPS.forEach(function (id) { if (id !== from) { crosshair(plotOf(id), query, key); } });
    var first = valueAt(plotOf(MAPS[0]), query, key), second = valueAt(plotOf(MAPS[1]), query, key);
    var minus = valueAt(plotOf(MAPS[2]), query, key);
    var cells = plotOf(MAPS[0]);
    var pooled = cells && cells._fullData && cells._fullData[0].zmax === 255 ? "largest weight" : "weight";
    readout.textContent = "query " + query + " → key " + key + " · " + pooled + ": first " + text(first) +
      ", second " + text(second) +
      (Number.isFinite(minus) ? " · difference " + signed(minus) : "");
  }

  // Plotly covers the page while a button is down, so only it can tell of a double click.
  var DOUBLE = 250, doubled = 0;

  // An Attention page that opens with a comparison is laid out once its panels are there (assets/compare.css): nothing jumps.
  if (window.location.pathname === "/attention" && new URLSearchParams(window.location.search).has("beside")) {
    document.documentElement.dataset.comparing = "true";
  }

  function watch() {
    if (!document.getElementById("compare-readout")) { return; }
    delete document.documentElement.dataset.comparing;
    MAPS.forEach(function (id) {
      var plot = plotOf(id);
      if (!plot || plot.dataset.linked || typeof plot.on !== "function") { return; }
      plot.dataset.linked = "true";
      plot.on("plotly_hover", function (event) {
        var at = event.points && event.points[0];
        if (at) { point(id, Math.round(at.y), Math.round(at.x)); }
      });
      plot.on("plotly_unhover", clearCrosshairs);
      if (id !== MAPS[0]) {
        plot.on("plotly_doubleclick", function () {
          doubled = Date.now();
          var reset = document.getElementById("zoom-reset");
          if (reset) { reset.click(); }
        });
      }
    });
  }

  new MutationObserver(watch).observe(document.documentElement, { subtree: true, childList: true });
  window.addEventListener("scroll", clearCrosshairs, true);

  // ---- one panel in the whole window ----

  var maximised = null;  // the panel, the id its button names, and what was made inert for it

  function buttonOf(id) { return document.querySelector('[data-maximise="' + id + '"]'); }

  function refit() { window.dispatchEvent(new Event("resize")); }

  function maximise(id) {
    var panel = document.getElementById(id);
    if (!panel) { return; }
    var hidden = [];
    for (var node = panel; node && node !== document.body; node = node.parentElement) {
      Array.from(node.parentElement.children).forEach(function (other) {
        if (other !== node && !other.inert && other.tagName !== "SCRIPT") { other.inert = true; hidden.push(other); }
      });
    }
    panel.dataset.maximised = "true";
    maximised = { panel: panel, id: id, hidden: hidden };
    told(id, true);
    refit();
  }

  function restore() {
    if (!maximised) { return; }
    var was = maximised;
    maximised = null;
    was.hidden.forEach(function (other) { other.inert = false; });
    delete was.panel.dataset.maximised;
    told(was.id, false);
    refit();
  }

  function told(id, pressed) {
    var button = buttonOf(id);
    if (!button) { return; }
    button.setAttribute("aria-pressed", String(pressed));
    button.focus();
  }

  document.addEventListener("click", function (event) {
    var button = within(event, "[data-maximise]");
    if (!button) { return; }
    if (maximised) { restore(); } else { maximise(button.dataset.maximise); }
  });

  document.addEventListener("keydown", function (event) {
    if (event.metaKey || event.ctrlKey || event.altKey || event.shiftKey) { return; }
    if (maximised && !document.contains(maximised.panel)) { restore(); }
    if (event.key === "Escape" && maximised) {
      event.preventDefault();
      restore();
      return;
    }
    if (event.key !== "m" || event.defaultPrevented || within(event, FIELDS)) { return; }
    var keyed = document.querySelector('[data-maximise][aria-keyshortcuts="m"]');
    var own = within(event, "section, .heads-area");
    var inside = own && own.id && buttonOf(own.id);
    if (!keyed && !inside) { return; }
    event.preventDefault();
    if (maximised) { restore(); } else { maximise((inside || keyed).dataset.maximise); }
  });

  window.addEventListener("popstate", function () {
    setTimeout(function () { if (maximised && !document.contains(maximised.panel)) { restore(); } }, 0);
  });

  // ---- the focus stays where it was when the server draws a control anew ----

  var holds = null;  // what finds the control that has the focus

  function selectorOf(element) {
    if (element.matches("[data-maximise]")) { return '[data-maximise="' + element.dataset.maximise + '"]'; }
    if (element.matches(".steps-slider")) { return ".steps-slider"; }
    if (element.matches("select[data-beside], #beside-text")) { return "#" + element.id; }
    var key = element.getAttribute("aria-keyshortcuts");
    return key && key.length === 1 ? '[aria-keyshortcuts="' + key + '"]' : null;
  }

  function saidBy(link) { return link.getAttribute("aria-label") || link.textContent || link.title; }

  function finderOf(element) {
    var selector = selectorOf(element), around = element.closest("[id]");
    if (selector) { return function () { return document.querySelector(selector); }; }
    if (!element.matches("#page a") || !around) { return null; }
    var said = saidBy(element), where = around.id, compares = element.closest(".compare-head");
    return function () {
      var now = document.getElementById(where);
      var links = now ? Array.from(now.querySelectorAll("a")) : [];
      var same = links.find(function (link) { return saidBy(link) === said; });
      // Who leaves the comparison is where it can be begun again.
      return same || (compares && !links.length ? document.querySelector('a[aria-keyshortcuts="c"]') : null);
    };
  }

  function hold() {
    if (maximised) {
      var button = buttonOf(maximised.id);
      if (button && button.getAttribute("aria-pressed") !== "true") { button.setAttribute("aria-pressed", "true"); }
    }
    if (!holds || (document.activeElement && document.activeElement !== document.body)) { return; }
    var again = holds();
    if (again) { again.focus({ preventScroll: true }); }
  }

  document.addEventListener("focusin", function (event) { holds = event.target.matches ? finderOf(event.target) : null; });
  document.addEventListener("pointerdown", function () { holds = null; }, true);
  new MutationObserver(hold).observe(document.documentElement, { subtree: true, childList: true });

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.compare = {
    // Whether the address names a comparison; told only when that changes.
    comparing: function (search, before) {
      var now = new URLSearchParams(search || "").has("beside");
      return now === Boolean(before) ? window.dash_clientside.no_update : now;
    },

    // A click that is no half of a double click, from either of two maps.
    single: function (second, minus) {
      var nothing = window.dash_clientside.no_update;
      var from = window.dash_clientside.callback_context.triggered[0];
      var click = from && from.prop_id.indexOf("compare-difference") === 0 ? minus : second;
      return new Promise(function (resolve) {
        setTimeout(function () { resolve(Date.now() - doubled < 3 * DOUBLE ? nothing : click); }, DOUBLE + 30);
      });
    }
  };
})();
