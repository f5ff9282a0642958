// What a reader of the page meets, measured in the browser.
const number = (text) => parseFloat(text);
const seen = (rect) => rect.width > 0 && rect.height > 0;
const short = (text) => text.trim().replace(/\s+/g, " ").slice(0, 60);

for (const details of document.querySelectorAll("details")) details.open = true;

// Texts with their boxes; of drawings their size on the screen counts.
const texts = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode;
  if (!node.textContent.trim()) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const box = range.getBoundingClientRect();
  if (!seen(box)) continue;
  const parent = node.parentElement;
  const style = getComputedStyle(parent);
  const drawn = parent.closest("svg");
  const scale = drawn ? Math.hypot(parent.getScreenCTM().a, parent.getScreenCTM().b) : 1;
  texts.push({ text: short(node.textContent), box, parent, style, drawn, size: number(style.fontSize) * scale });
}

// The contrast of a text with what is behind it, as WCAG reckons it.
const channels = (colour) => colour.match(/[\d.]+/g).map(Number);
const light = (colour) => {
  const [r, g, b] = channels(colour).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if ((channels(colour)[3] ?? 1) > 0) return colour;
  }
  return "rgb(255, 255, 255)";
};
const contrast = (one, other) => {
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};

const wide = document.documentElement.clientWidth;
const touch = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
const plots = [...document.querySelectorAll("svg.plot")];
const curves = plots.flatMap((plot) => [...plot.querySelectorAll("circle, polyline:not([fill='none']), polygon")]);
const shown = {
  width: document.documentElement.scrollWidth,
  height: document.documentElement.scrollHeight,
  window: innerWidth,
  ratio: devicePixelRatio,
  plots: plots.map((plot) => {
    const { width, height } = plot.getBoundingClientRect();
    return { width, height, visible: plot.checkVisibility({ visibilityProperty: true, opacityProperty: true }) };
  }),
  smallest: Math.min(...texts.map((each) => each.size)),
  outside: texts
    .filter((each) => !each.parent.closest(".scroll") && (each.box.left < 0 || each.box.right > wide))
    .map((each) => each.text),
  clipped: texts
    .filter((each) => {
      const frame = each.drawn?.getBoundingClientRect();
      return frame && (each.box.left < frame.left || each.box.right > frame.right || each.box.bottom > frame.bottom + 1);
    })
    .map((each) => each.text),
  touching: texts
    .filter((each) => each.drawn)
    .flatMap((each, place, all) =>
      all.slice(place + 1).filter((other) => other.drawn === each.drawn && touch(each.box, other.box))
        .map((other) => `${each.text} / ${other.text}`)),
  faint: texts
    .filter((each) => contrast(each.drawn ? each.style.fill : each.style.color, behind(each.parent)) < 4.5)
    .map((each) => each.text),
  faintLines: curves
    .filter((each) => contrast(getComputedStyle(each).fill, behind(each)) < 3)
    .map((each) => getComputedStyle(each).fill),
  ours: channels(getComputedStyle(plots[0].querySelector("circle")).fill),
  missed: short(document.querySelector("td .missed").innerText),
  words: document.body.innerText,
};
for (const details of document.querySelectorAll("details")) details.open = false;
shown.closed = document.documentElement.scrollHeight;
return shown;
