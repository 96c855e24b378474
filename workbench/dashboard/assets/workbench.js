// Behaviour that must not wait for the server: links, theme, the readout under the pointer.
(function () {
  "use strict";

  var THEME = "copy-workbench-theme";

  function theme() { return document.documentElement.dataset.theme; }

  function setTheme(name) {
    document.documentElement.dataset.theme = name;
    try { localStorage.setItem(THEME, name); } catch (error) { /* private window: kept until it closes */ }
  }

  // Older links name the checkpoint "step"; whatever changes the address looks for one name.
  var renewed = window.location.search.replace(/([?&])step=/g, "$1checkpoint=");
  if (renewed !== window.location.search) {
    window.history.replaceState({}, "", window.location.pathname + renewed + window.location.hash);
  }

  // The page is not there yet when the browser looks for what "#help-words" names: it is looked for once it is.
  var anchor = window.location.hash.slice(1);

  // A link inside the dashboard changes the address and tells dcc.Location, as going back would; the page stays.
  function go(there) {
    var here = window.location.pathname + window.location.search;
    if (there === here) { return; }
    anchor = there.split("#")[1] || "";
    window.history.pushState({}, "", there);
    window.dispatchEvent(new PopStateEvent("popstate"));
    if (there.split(/[?#]/)[0] !== here.split("?")[0]) { window.scrollTo(0, 0); }
  }

  function follow(event) {
    if (event.defaultPrevented || event.button !== 0) { return; }
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) { return; }
    var link = event.target.closest("a[href^='/']");
    if (!link || link.target || link.hasAttribute("download")) { return; }
    event.preventDefault();
    go(link.getAttribute("href"));
  }

  // The map as a picture: in the colours of paper whatever the theme, since a theme's are not part of the figure.
  function save(format, name) {
    var plot = document.querySelector("#attention-map .js-plotly-plot");
    if (!plot || !window.Plotly) { return; }
    window.Plotly.downloadImage(plot, {
      format: format, filename: name, width: plot.clientWidth, height: plot.clientHeight,
      scale: format === "png" ? 2 : 1, setBackground: "opaque"
    });
  }

  document.addEventListener("click", function (event) {
    if (event.target.closest("#theme")) {
      setTheme(theme() === "dark" ? "light" : "dark");
      return;
    }
    var picture = event.target.closest("[data-picture]");
    if (picture) {
      save(picture.dataset.picture, picture.dataset.name);
      return;
    }
    follow(event);
  });

  // A page says which of its links a key follows by aria-keyshortcuts. What is typed into a field stays there.
  var FIELDS = "input, textarea, select, iframe, [contenteditable], [role=listbox], [role=option], [role=combobox], " +
    "[role=menu], [role=dialog], dialog, .dash-dropdown, .dash-dropdown-content";

  function keyed() { return Array.from(document.querySelectorAll("a[aria-keyshortcuts]")); }

  function keyOf(link) { return link.getAttribute("aria-keyshortcuts"); }

  // Whether the grid of heads still stands around the head before: its keys would lead to neighbours of that one.
  function isBehind() {
    var open = document.querySelector("a.thumbnail[aria-current]");
    if (!open) { return false; }
    var there = new URL(open.href).searchParams, here = new URLSearchParams(window.location.search);
    return ["layer", "head"].some(function (name) { return (there.get(name) || "0") !== (here.get(name) || "0"); });
  }

  var LATEST = 600;  // milliseconds that a key waits for the grid at most
  var waiting = null;

  function press() {
    clearTimeout(waiting && waiting.timer);
    var key = waiting && waiting.key;
    waiting = null;
    var follows = keyed().find(function (link) { return keyOf(link) === key; });
    if (follows) { follows.click(); }
  }

  function followKey(event) {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) { return; }
    if (event.target.closest && event.target.closest(FIELDS)) { return; }
    var links = keyed(), arrow = event.key.indexOf("Arrow") === 0;
    var arrows = arrow && links.some(function (link) { return keyOf(link).indexOf("Arrow") === 0; });
    // At an edge, where a key leads nowhere, it must not scroll the page either.
    if (!arrows && !links.some(function (link) { return keyOf(link) === event.key; })) { return; }
    event.preventDefault();
    clearTimeout(waiting && waiting.timer);
    waiting = { key: event.key, timer: setTimeout(press, LATEST) };
    if (!arrows || !isBehind()) { press(); }
  }

  function reachNamed() {
    var there = anchor && document.getElementById(anchor);
    if (!there) { return; }
    anchor = "";
    window.location.replace(window.location.href);  // as a link to it would: scrolls, and :target holds
  }

  document.addEventListener("keydown", followKey);
  document.addEventListener("keydown", function (event) {
    if (event.key === " " && event.target.getAttribute("role") === "checkbox") {
      event.preventDefault();
      event.target.click();
    }
  });

  // What went wrong at one view is not said at the next.
  window.addEventListener("popstate", function () {
    if (document.querySelector("#problem > *")) { window.dash_clientside.set_props("problem", { children: [] }); }
  });

  // Two clicks are a double click, which pins no row: a click waits for as long as the second one may take.
  var DOUBLE = 250, doubled = 0;

  // A double click on the map shows all of it. Plotly covers the page while a button is down, so only it can tell.
  function watchMap() {
    var plot = document.querySelector("#attention-map .js-plotly-plot");
    if (!plot || plot.dataset.watched || typeof plot.on !== "function") { return; }
    plot.dataset.watched = "true";
    plot.on("plotly_doubleclick", function () {
      doubled = Date.now();
      var reset = document.getElementById("zoom-reset");
      if (reset) { reset.click(); }
    });
  }

  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function (event) {
    var kept = null;
    try { kept = localStorage.getItem(THEME); } catch (error) { kept = null; }
    if (!kept) { document.documentElement.dataset.theme = event.matches ? "dark" : "light"; }
  });

  // Pictures of heads are fetched two at a time, so that a hundred of them never keep a click waiting.
  var AT_ONCE = 2, loading = 0;

  function pump() {
    var waiting = document.querySelectorAll("img[data-src]");
    for (var i = 0; i < waiting.length && loading < AT_ONCE; i++) {
      if (waiting[i].dataset.asked !== waiting[i].dataset.src) { fetchPicture(waiting[i]); }
    }
  }

  function fetchPicture(image) {
    var done = function () {
      image.onload = image.onerror = null;
      loading -= 1;
      pump();
    };
    if (!image.onload) { loading += 1; }  // one that is still loading has its place already
    image.dataset.asked = image.dataset.src;
    image.onload = image.onerror = done;
    image.src = image.dataset.src;
  }

  // Dash puts a hidden field before a choice to take its focus; assets/workbench.css takes that field away, so that
  // nobody stops at something that is not there, and the choice itself is reached instead.
  function reachChoices() {
    document.querySelectorAll("button.dash-dropdown[tabindex='-1']").forEach(function (choice) { choice.tabIndex = 0; });
  }

  new MutationObserver(function () {
    pump();
    watchMap();
    watchSize();
    reachChoices();
    reachNamed();
    if (waiting && !isBehind()) { press(); }
  }).observe(document.documentElement, {
    subtree: true, childList: true, attributes: true, attributeFilter: ["data-src", "aria-current"]
  });

  // How many cells a side the map has room for, in steps that a small change of the window does not leave.
  // Before it is drawn, what its axes, their labels, title and bar take is to come.
  var STEP = 32, ACROSS = 142, DOWN = 108;

  function room() {
    var plot = document.querySelector("#attention-map .js-plotly-plot"), map = document.querySelector(".map");
    var cells = plot && plot.data && plot.data.length ? plot.querySelector(".nsewdrag") : null;
    var box = (cells || map || document.body).getBoundingClientRect();
    if (!box.width) { return null; }
    var side = Math.min(box.width - (cells ? 0 : ACROSS), box.height - (cells ? 0 : DOWN));
    return Math.max(STEP, Math.floor(side / STEP) * STEP);
  }

  var measured = null, resizing = null;

  var sized = new ResizeObserver(function () {
    clearTimeout(resizing);
    resizing = setTimeout(function () {
      var now = document.getElementById("attention-map") && room();
      if (now && measured && now !== measured) {
        measured = now;
        window.dash_clientside.set_props("attention-pixels", { data: now });
      }
    }, 300);
  });

  function watchSize() {
    var map = document.querySelector(".map");
    if (map && !map.dataset.watched) {
      map.dataset.watched = "true";
      sized.observe(map);
    }
  }

  function binOf(edges, at) {
    var low = 0, high = edges.length - 2;
    while (low < high) {
      var middle = (low + high + 1) >> 1;
      if (edges[middle] <= at) { low = middle; } else { high = middle - 1; }
    }
    return [edges[low], edges[low + 1] - 1];
  }

  function element(type, className, children) {
    return { type: type, namespace: "dash_html_components", props: { className: className, children: children } };
  }

  // "query 71 [0]" for one token, "queries 70–72" for several.
  function named(one, several, names, span) {
    if (span[0] === span[1]) { return [one + " " + span[0] + " ", element("Bdi", "token", names[span[0]])]; }
    return [several + " " + span[0] + "–" + span[1]];
  }

  function weightText(weight) {
    return weight > 0 && weight < 0.0001 ? "< 0.0001" : weight.toFixed(4);
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.workbench = {
    entitle: function (links, path) {
      var current = document.querySelector("#nav a[aria-current]");
      document.title = (current ? current.textContent + " · " : "") + "Copy Workbench";
      return window.dash_clientside.no_update;
    },

    // What an address says of some fields; told only when that changes, so that a region is asked for by its own alone.
    part: function (search, asked, fields) {
      var query = new URLSearchParams(search || ""), own = new URLSearchParams();
      fields.forEach(function (name) {
        query.getAll(name).forEach(function (value) { own.append(name, value); });
      });
      var now = own.toString();
      return now === asked ? window.dash_clientside.no_update : now;
    },

    // The selected row of a table is scrolled into its box, below the headings; the page stays where it is.
    reveal: function () {
      requestAnimationFrame(function () {
        var row = document.querySelector(".scroll tr.current");
        var box = row && row.closest(".scroll");
        if (!box) { return; }
        var head = box.querySelector("thead"), covered = head ? head.offsetHeight : 0;
        var above = row.offsetTop - covered - box.scrollTop;
        var below = row.offsetTop + row.offsetHeight - box.clientHeight - box.scrollTop;
        if (above < 0) { box.scrollTop += above; } else if (below > 0) { box.scrollTop += below; }
      });
      return window.dash_clientside.no_update;
    },

    // Whether the interval rests at which a page looks if something is ready: from the beat after it was told so.
    rest: function (ready) {
      var beats = window.dash_clientside.callback_context.triggered.some(function (from) {
        return from.prop_id.slice(-12) === ".n_intervals";
      });
      return !ready ? false : beats ? true : window.dash_clientside.no_update;
    },

    go: function (there) {
      if (typeof there === "string" && there[0] === "/") { go(there); }
      return window.dash_clientside.no_update;
    },

    single: function (click) {
      var nothing = window.dash_clientside.no_update;
      return new Promise(function (resolve) {
        setTimeout(function () { resolve(Date.now() - doubled < 3 * DOUBLE ? nothing : click); }, DOUBLE + 30);
      });
    },

    pixels: function () {
      measured = room() || STEP;  // nothing is seen of a map behind the other tab: measured when it comes to the front
      return room() || window.dash_clientside.no_update;
    },

    // "query 71 [0] → key 9 [0] · offset 62 · weight 0.6213", or ranges and the largest weight where cells are pooled.
    readout: function (hover, cells, tokens) {
      var point = hover && hover.points && hover.points[0];
      if (!point || !cells || !tokens || !tokens.names) { return window.dash_clientside.no_update; }
      var query = Math.round(point.y), key = Math.round(point.x);
      var pooled = Boolean(cells.rows);
      var queries = pooled ? binOf(cells.rows, query) : [query, query];
      var keys = pooled ? binOf(cells.cols, key) : [key, key];
      var single = queries[0] === queries[1] && keys[0] === keys[1];
      var said = named("query", "queries", tokens.names, queries)
        .concat([" → "], named("key", "keys", tokens.names, keys));
      if (single) { said.push(" · offset " + (queries[0] - keys[0])); }
      if (!Number.isFinite(point.z) || (pooled && point.z === 255)) {
        return said.concat([" · in the future, not seen"]);
      }
      var weight = pooled ? Math.pow(point.z / 254, 2) : point.z;
      said.push(!pooled ? " · weight " : single ? " · weight about " : " · largest weight ", element("B", "", weightText(weight)));
      return single && tokens.source[query] === key ? said.concat([" · true source"]) : said;
    }
  };
})();
