// The list of keys that `?` opens, and the link to the view that a button copies.
(function () {
  "use strict";

  // Which keys work is decided by what the open page shows, also of what is drawn while the list is open.
  function sort(list) {
    list.querySelectorAll("tr[data-here]").forEach(function (row) {
      row.hidden = !document.querySelector(row.dataset.here);
    });
  }

  function openKeys() {
    var list = document.getElementById("keys-list"), page = document.getElementById("page");
    if (!list || !page || list.open) { return; }
    sort(list);
    var drawn = new MutationObserver(function () { sort(list); });
    drawn.observe(page, { subtree: true, childList: true, attributes: true, attributeFilter: ["aria-keyshortcuts"] });
    list.addEventListener("close", function () { drawn.disconnect(); }, { once: true });
    list.showModal();  // keeps the focus inside, closes by Escape, gives the focus back
  }

  var TYPED_INTO = "input, textarea, select, iframe, [contenteditable], [role=listbox], [role=option], " +
    "[role=combobox], [role=menu], .dash-dropdown, .dash-dropdown-content";

  document.addEventListener("keydown", function (event) {
    if (event.key !== "?" || event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) { return; }
    if (event.target.closest && event.target.closest(TYPED_INTO)) { return; }
    event.preventDefault();
    openKeys();
  });

  var SAID = 2500, saying = null;

  function say(text) {
    window.dash_clientside.set_props("link-said", { children: text });
    clearTimeout(saying);
    saying = setTimeout(function () { window.dash_clientside.set_props("link-said", { children: "" }); }, SAID);
  }

  // Browsers that keep the clipboard from scripts still copy what is selected in a field.
  function copyBySelection(text) {
    var field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    document.body.append(field);
    field.select();
    var done = document.execCommand("copy");
    field.remove();
    return done;
  }

  function copyLink(button) {
    var there = window.location.href;
    var otherwise = function () {
      say(copyBySelection(there) ? "Link copied" : "Not allowed to copy: take the address from the address bar");
      button.focus();
    };
    if (!navigator.clipboard) { otherwise(); return; }
    navigator.clipboard.writeText(there).then(function () { say("Link copied"); }, otherwise);
  }

  document.addEventListener("click", function (event) {
    var list = document.getElementById("keys-list");
    if (event.target.closest("#keys")) { openKeys(); return; }
    if (list && (event.target === list || event.target.closest("#keys-list .closes, #keys-list a"))) { list.close(); }
    var button = event.target.closest("#copy-link");
    if (button) { copyLink(button); }
  });
})();
