// What is wrong with the layout of the page, in sentences. Text that a scrollable box hides can be reached; text that anything else hides is cut.
(() => {
  const faults = [];
  const short = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 40));
  const place = (e) => e.localName + (e.id ? "#" + e.id : "") + (e.getAttribute("class") ? "." + e.getAttribute("class").split(" ").join(".") : "");
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) {
    const wide = [...document.querySelectorAll("main *, header *, footer *")].filter((e) => !e.closest(".scroll") && e.getBoundingClientRect().right > innerWidth + 1);
    faults.push(`the page is ${root.scrollWidth} px wide: ${wide.slice(0, 3).map(place).join(", ")}`);
  }

  const header = document.querySelector("header").getBoundingClientRect().height;
  if (header > 130) faults.push(`the header takes ${header} px, more than three lines`);

  // boxes are those of all lines of text that can be seen, without what scrollable boxes hide.
  const boxes = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = texts.nextNode()); ) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("title, desc, script, style, option, .skip, .only-heard") || !parent.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      const box = { node, left: r.left, right: r.right, top: r.top, bottom: r.bottom };
      // A line is higher than its letters.
      const slack = (r.height - Math.min(r.height, parseFloat(getComputedStyle(parent).fontSize) || r.height)) / 2 + 1;
      for (let e = parent; e && e !== document.body; e = e.parentElement) {
        const style = getComputedStyle(e);
        if (style.overflowX === "visible" && style.overflowY === "visible") continue;
        const c = e.getBoundingClientRect();
        if (!/auto|scroll/.test(style.overflowX + style.overflowY) && (box.left < c.left - 1 || box.right > c.right + 1 || box.top + slack < c.top || box.bottom - slack > c.bottom))
          faults.push(`cut by ${place(e)}: ${short(node.data)}`);
        [box.left, box.right, box.top, box.bottom] = [Math.max(box.left, c.left), Math.min(box.right, c.right), Math.max(box.top, c.top), Math.min(box.bottom, c.bottom)];
      }
      box.top += slack;
      box.bottom -= slack;
      if (box.right <= box.left || box.bottom <= box.top) continue;
      if (box.left + scrollX < -1 || box.top + scrollY < -1) faults.push(`outside of the page: ${short(node.data)}`);
      boxes.push(box);
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  boxes.forEach((a, i) => {
    for (let k = i + 1; k < boxes.length && boxes[k].top < a.bottom; k++) {
      const b = boxes[k];
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      if (high > 1.5 && wide > 1.5) faults.push(`${short(a.node.data)} and ${short(b.node.data)} overlap by ${Math.round(wide)} x ${Math.round(high)} px`);
    }
  });
  for (const e of document.querySelectorAll("input:not([type=hidden]), select"))
    if (e.checkVisibility() && e.scrollWidth > e.clientWidth + 1) faults.push(`cut: the value of ${place(e)} ${e.name}`);
  // On a wide screen no one shall have to scroll to a button.
  for (const e of document.querySelectorAll(".scroll button, .scroll input"))
    if (innerWidth >= 1280 && e.getBoundingClientRect().right > e.closest(".scroll").getBoundingClientRect().right) faults.push(`hidden at the right: ${place(e)} ${short(e.innerText)}`);
  return [...new Set(faults)].slice(0, 12);
})()
