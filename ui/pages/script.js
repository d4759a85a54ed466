"use strict";
// Every two seconds the script loads the page again and replaces the parts whose numbers change.
// Without script, a reader reloads the page.
(() => {
  const every = 2000;
  const live = [...document.querySelectorAll("[data-live]")];
  const lost = document.getElementById("lost");
  if (live.length === 0) return;

  let paused = false;
  const pause = document.createElement("button");
  pause.id = "pause";
  pause.type = "button";
  pause.textContent = "Pause";
  pause.title = "Stop the updates of this page";
  pause.setAttribute("aria-pressed", "false");
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
  });
  document.querySelector("header").append(pause);

  // replace exchanges the content of a part, and keeps the focus where it was.
  function replace(part, next) {
    const selection = getSelection();
    const selected = !selection.isCollapsed && part.contains(selection.anchorNode);
    if (selected || part.innerHTML === next.innerHTML) return;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const scrolled = part.querySelector(".scroll")?.scrollLeft ?? 0;
    part.replaceChildren(...next.childNodes);
    const scroll = part.querySelector(".scroll");
    if (scroll) scroll.scrollLeft = scrolled;
    if (!focused) return;
    const same = focused.href
      ? [...part.querySelectorAll("a")].find((a) => a.href === focused.href)
      : part.querySelector(".scroll");
    (same ?? pause).focus({ preventScroll: true });
  }

  // tell shows a message below the page, or removes it. A reader of the screen hears each once.
  function tell(text) {
    if (lost.textContent !== text) lost.textContent = text;
    lost.hidden = text === "";
  }

  let since = new Date();
  async function update() {
    if (paused || document.hidden) return;
    try {
      const answer = await fetch(location.href, { cache: "no-store", redirect: "error", signal: AbortSignal.timeout(5000) });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const parts = live.map((part) => next.getElementById(part.id));
      const failed = next.getElementById("failed");
      if (failed) return tell(failed.textContent);
      if (parts.includes(null)) throw new Error("another page");
      live.forEach((part, i) => replace(part, parts[i]));
      tell("");
      since = new Date();
    } catch {
      tell("The program behind this page has not answered since " + since.toLocaleTimeString() +
        ". The numbers are of that time. The page tries again every two seconds.");
    }
  }

  (async () => {
    for (;;) {
      await new Promise((wake) => setTimeout(wake, every));
      await update();
    }
  })();
})();
