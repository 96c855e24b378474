// The Failures page: buttons that ask the server for something, tokens that are edited, rows that lead elsewhere.
(function () {
  "use strict";

  var AGAIN = 350;  // milliseconds after which something is asked for again that waits for a model

  function set(id, data) { window.dash_clientside.set_props(id, { data: data }); }

  function ask(asked) { set("failures-ask", { what: asked.what, on: asked.on, at: Date.now() }); }

  var edited = null;  // the token that has the focus again once the edited string is drawn

  function flip(cell, token) {
    edited = cell.dataset.k;
    set("failures-flip", { k: Number(cell.dataset.flip), token: token, at: Date.now() });
  }

  document.addEventListener("click", function (event) {
    if (!event.target.closest) { return; }
    var button = event.target.closest("[data-asks]");
    if (button) { ask({ what: button.dataset.asks, on: button.dataset.on }); return; }
    var cell = event.target.closest("[data-opens] .cell");
    if (!cell) { return; }
    if (cell.dataset.flip) { flip(cell, null); }
    if (cell.dataset.row) {
      window.dash_clientside.workbench.go(cell.closest("[data-opens]").dataset.opens + cell.dataset.row);
    }
  });

  document.addEventListener("keydown", function (event) {
    var cell = event.target.closest && event.target.closest(".cell[data-flip]");
    if (!cell || event.metaKey || event.ctrlKey || event.altKey || event.shiftKey) { return; }
    if (/^[0-9]$/.test(event.key)) {
      event.preventDefault();
      flip(cell, Number(event.key));
    }
  });

  // A page that opens with a comparison is seen once it is laid out for it: nothing jumps.
  if (window.location.pathname === "/failures" && new URLSearchParams(window.location.search).has("beside")) {
    document.documentElement.dataset.twoFailures = "true";
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.failures = {
    again: function (asked) {
      if (asked) { setTimeout(function () { ask(asked); }, AGAIN); }
      return window.dash_clientside.no_update;
    },

    // The panels are laid out for a comparison, or without one: they may be seen.
    compared: function (shown) {
      if (typeof shown === "string") { delete document.documentElement.dataset.twoFailures; }
      return window.dash_clientside.no_update;
    },

    // The grid is drawn anew after an edit: the token that was edited keeps the focus.
    drawn: function () {
      requestAnimationFrame(function () {
        if (edited === null || (document.activeElement || document.body) !== document.body) { return; }
        var cell = document.querySelector('#failures-case .cell[data-flip="' + edited + '"]');
        edited = null;
        if (!cell) { return; }
        cell.closest("[data-grid]").querySelectorAll('.cell[tabindex="0"]').forEach(function (other) { other.tabIndex = -1; });
        cell.tabIndex = 0;
        cell.focus({ preventScroll: true });
      });
      return window.dash_clientside.no_update;
    }
  };
})();
