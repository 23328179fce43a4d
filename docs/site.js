// Names for screen readers, and stops for the keyboard, that the theme's scripts leave out.

function complete() {
  for (const [at, nav] of document.querySelectorAll(".md-code__nav").entries()) {
    nav.setAttribute("aria-label", `Code ${at + 1}`);
  }
  for (const [at, box] of document.querySelectorAll(".md-typeset__scrollwrap").entries()) {
    // A table that fits needs no stop.
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `Table ${at + 1}`);
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  }
}

// The theme adds both after the page has loaded.
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", complete);
complete();
