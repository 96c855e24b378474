// Pages that run a model: tokens under the pointer or the focus, arrow keys, typing over the string, copying code.
(function () {
  "use strict";

  var SETTLE = 40;  // milliseconds after which a token counts as pointed at

  var reported = null, settling = null;

  function report(at) {
    clearTimeout(settling);
    settling = setTimeout(function () {
      if (at === reported || !document.getElementById("playground-row-bar")) { return; }
      reported = at;
      window.dash_clientside.set_props("playground-at", { data: at });
    }, SETTLE);
  }

  function cellOf(event) {
    return event.target.closest ? event.target.closest(".cell[data-k]") : null;
  }

  function go(changes) {
    var query = new URLSearchParams(window.location.search);
    Object.keys(changes).forEach(function (name) {
      if (changes[name] === null) { query.delete(name); } else { query.set(name, changes[name]); }
    });
    window.dash_clientside.workbench.go(window.location.pathname + "?" + query.toString());
  }

  function row(cell) { return Math.floor(Number(cell.dataset.at) / 2); }

  document.addEventListener("pointerover", function (event) {
    var cell = cellOf(event);
    if (cell && cell.dataset.at) { report(Number(cell.dataset.at)); return; }
    if (!(event.target.closest && event.target.closest("[data-grid]")) && !document.querySelector(".cell:focus")) {
      report(-1);
    }
  });

  document.addEventListener("focusin", function (event) {
    var cell = cellOf(event);
    if (cell && cell.dataset.at) { report(Number(cell.dataset.at)); }
  });

  document.addEventListener("focusout", function (event) {
    if (cellOf(event)) { report(-1); }
  });

  document.addEventListener("click", function (event) {
    var cell = cellOf(event);
    if (cell && cell.dataset.at) { go({ row: row(cell) }); return; }
    var button = event.target.closest ? event.target.closest("[data-copies]") : null;
    if (button) { copy(button, document.getElementById(button.dataset.copies)); }
  });

  function copy(button, source) {
    if (!source) { return; }
    var said = button.textContent;
    var done = function (text) {
      button.textContent = text;
      setTimeout(function () { button.textContent = said; }, 1500);
    };
    navigator.clipboard.writeText(source.textContent).then(
      function () { done("Copied"); },
      function () {
        window.getSelection().selectAllChildren(source);  // not allowed to: selected, so that a key copies it
        done("Selected: press Ctrl+C");
      }
    );
  }

  var MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

  // Lines that have no token here are passed over.
  function move(cell, by) {
    var grid = cell.closest("[data-grid]"), line = Number(cell.dataset.line), k = Number(cell.dataset.k) + by[1];
    for (var lines = grid.querySelectorAll(".labels .col-label").length; lines > 0; lines--) {
      line += by[0];
      if (cellAt(grid, line, k)) { focus(grid, line, k); return; }
    }
  }

  function cellAt(grid, line, k) {
    return grid && grid.querySelector('.cell[data-line="' + line + '"][data-k="' + k + '"]');
  }

  function focus(grid, line, k) {
    var next = cellAt(grid, line, k);
    if (!next) { return; }
    grid.querySelectorAll('.cell[tabindex="0"]').forEach(function (other) { other.tabIndex = -1; });
    next.tabIndex = 0;
    next.focus();
  }

  var edited = null;  // the token that is to have the focus once the copy of the edited string is drawn

  // A digit over a token of the string takes its place; the address then holds the string as typed.
  function type(cell, digit) {
    var tokens = Array.from(cell.closest("[data-grid]").querySelectorAll(".cell.source"), function (other) {
      return other === cell ? digit : other.textContent;
    });
    if (tokens.some(function (token) { return token.length !== 1; })) { return; }
    edited = [cell.dataset.line, cell.dataset.k];
    go({ text: tokens.join(""), fed: null, row: row(cell) });
  }

  // A digit over a fed token is fed in its place; the right token is fed by saying nothing.
  function feed(cell, digit) {
    var k = cell.dataset.k, right = cell.closest("[data-grid]").querySelector('.cell.source[data-k="' + k + '"]');
    var fed = {}, said = new URLSearchParams(window.location.search).get("fed");
    (said ? said.split(",") : []).forEach(function (part) { fed[part.split(":")[0]] = part.split(":")[1]; });
    if (right && right.textContent === digit) { delete fed[k]; } else { fed[k] = digit; }
    var parts = Object.keys(fed).map(function (index) { return index + ":" + fed[index]; });
    edited = [cell.dataset.line, k];
    go({ fed: parts.length ? parts.join(",") : null, row: row(cell) });
  }

  document.addEventListener("keydown", function (event) {
    var cell = cellOf(event);
    if (!cell || event.metaKey || event.ctrlKey || event.altKey || event.shiftKey) { return; }
    if (MOVES[event.key]) {
      event.preventDefault();
      event.stopPropagation();
      move(cell, MOVES[event.key]);
    } else if (/^[0-9]$/.test(event.key) && cell.classList.contains("source")) {
      event.preventDefault();
      type(cell, event.key);
    } else if (/^[0-9]$/.test(event.key) && cell.classList.contains("fed")) {
      event.preventDefault();
      feed(cell, event.key);
    }
  }, true);

  // The token whose query is shown is outlined; React never sees the attribute, so it is set again when it draws anew.
  function mark() {
    if (edited && (document.activeElement || document.body) === document.body) {
      focus(document.getElementById("playground-grid"), edited[0], edited[1]);
      edited = null;
    }
    var shown = document.querySelector("#playground-row-bar [data-pinned]");
    var at = shown ? shown.dataset.pinned : null;
    document.querySelectorAll("#playground-grid .cell[data-shown]").forEach(function (cell) {
      if (cell.dataset.at !== at) { cell.removeAttribute("data-shown"); }
    });
    var cells = document.querySelectorAll('#playground-grid .cell[data-at="' + at + '"]');
    cells.forEach(function (cell) { cell.dataset.shown = "true"; });
    if (cells.length) { reveal(cells[0], at); }
  }

  var revealed = null;

  // A query that nobody pointed at, as the first error of a long string, is scrolled to: once, not against the reader,
  // and again when lines were added.
  function reveal(cell, at) {
    var text = document.getElementById("playground-text"), area = cell.closest(".copy-area");
    var lines = area ? area.querySelectorAll(".col-label").length : 0;
    var what = at + " " + lines + " " + (text ? text.value : "");
    if (what === revealed || !area) { return; }
    revealed = what;
    if (area.matches(":hover") || area.contains(document.activeElement)) { return; }
    var seen = area.getBoundingClientRect(), box = cell.closest(".col").getBoundingClientRect();
    if (box.top < seen.top || box.bottom > seen.bottom) {
      area.scrollTop += box.top - seen.top - (seen.height - box.height) / 2;
    }
  }

  // What is the same for every cell of a line or column is not sent with each of them.
  function placeCells() {
    document.querySelectorAll(".token-grid:not([data-placed]) > .cols").forEach(function (cols) {
      var labels = cols.parentElement.querySelectorAll(".col-label");
      cols.parentElement.dataset.placed = "true";
      Array.from(cols.children).forEach(function (col, k) {
        labels.forEach(function (label, line) {
          var cell = col.children[line + 1];
          if (!cell || !cell.matches("button")) { return; }
          cell.dataset.line = line;
          cell.dataset.k = k;
          cell.tabIndex = line === 0 && k === 0 ? 0 : -1;
          cell.title = label.textContent + " " + k + ": " + cell.title;
        });
      });
    });
  }

  // Where the columns go on below, the lines are named again.
  function nameLines() {
    document.querySelectorAll(".token-grid > .cols").forEach(function (cols) {
      var labels = cols.parentElement.querySelector(".labels"), last = null;
      var said = Array.from(labels.querySelectorAll(".col-label"), function (label) { return label.textContent; });
      cols.style.setProperty("--labels", labels.offsetWidth + "px");
      Array.from(cols.children, function (col) {
        var below = last !== null && col.offsetTop > last;
        last = col.offsetTop;
        return [col, below];
      }).forEach(function (pair) {
        if (pair[1]) { pair[0].dataset.named = said.join("\n"); } else { delete pair[0].dataset.named; }
      });
    });
  }

  var naming = null;

  function drawnAnew() {
    placeCells();
    if (naming === null) {
      naming = requestAnimationFrame(function () { naming = null; nameLines(); });
    }
  }

  new MutationObserver(drawnAnew).observe(document.documentElement, { subtree: true, childList: true });
  window.addEventListener("resize", drawnAnew);

  var AGAIN = 300;  // milliseconds between looks for a model
  var SETTLED = 400;  // and until the regions of a page whose model was there at once have answered for themselves
  var waited = {};  // pages that wait for a model

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.live = {
    // A number while a model is loaded, 0 once there is nothing more to wait for.
    wait: function (since, id) {
      var page = id.slice(0, id.lastIndexOf("-"));
      if (typeof since === "number") {
        var later = since > 0 ? AGAIN : waited[page] ? 0 : SETTLED;
        waited[page] = since > 0;
        setTimeout(function () {
          if (!document.getElementById(page + "-columns")) { return; }
          window.dash_clientside.set_props(page + (since > 0 ? "-clock" : "-tick"), { n_intervals: Date.now() });
        }, later);
      }
      return window.dash_clientside.no_update;
    },

    // The field that a person changed, as name and value: the one that differs from what the server set.
    changed: function () {
      var context = window.dash_clientside.callback_context, set = arguments[arguments.length - 1];
      var different = set && context.inputs_list.find(function (input) {
        var name = input.id.slice(input.id.lastIndexOf("-") + 1), value = input.value;
        return (value === undefined ? null : value) !== (set[name] === undefined ? null : set[name]);
      });
      if (!different) { return window.dash_clientside.no_update; }
      return [different.id.slice(different.id.lastIndexOf("-") + 1), different.value === undefined ? null : different.value];
    },

    mark: function () {
      requestAnimationFrame(mark);
      return window.dash_clientside.no_update;
    },

    // The keys in sight of two compared heads go into the address, with the queries up to the one that is shown.
    zoomed: function (event) {
      var nothing = window.dash_clientside.no_update;
      if (!event || !new URLSearchParams(window.location.search).has("beside")) { return nothing; }
      if (event["xaxis.autorange"]) { go({ zoom: null }); return nothing; }
      if (!("xaxis.range[0]" in event)) { return nothing; }
      var left = Math.max(0, Math.ceil(event["xaxis.range[0]"])), right = Math.floor(event["xaxis.range[1]"]) + 1;
      var shown = document.querySelector("#playground-row-bar [data-pinned]");
      var rows = Math.max(right, shown ? Math.floor(Number(shown.dataset.pinned) / 2) + 1 : 0);
      if (right > left) { go({ zoom: "0-" + rows + "." + left + "-" + right }); }
      return nothing;
    }
  };
})();
