// Buttons of the Runs page that ask the server for something: data-do says what, data-on says to which job or run.
(function () {
  "use strict";

  document.addEventListener("click", function (event) {
    var pressed = event.target.closest("[data-do]");
    if (!pressed) { return; }
    var asked = { do: pressed.dataset.do, on: pressed.dataset.on, at: Date.now() };
    window.dash_clientside.set_props("runs-ask", { data: asked });
  });
})();
