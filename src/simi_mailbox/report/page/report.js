"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // --- the switch: one view of everything at a time ---
  const panels = document.querySelectorAll(".view");
  const rows = document.querySelectorAll("tr[data-view]");
  const show = (key) => {
    for (const panel of panels) panel.hidden = !panel.dataset.view.split(" ").includes(key);
    for (const row of rows) row.classList.toggle("current", row.dataset.view === key);
    hide();
  };
  // Radio buttons, and on a phone a list: whichever is used, the other follows.
  const radios = [...document.querySelectorAll("input[name=view]")];
  const list = document.querySelector("select[name=view]");
  const choose = (key) => {
    for (const radio of radios) radio.checked = radio.value === key;
    list.value = key;
    show(key);
  };
  for (const input of [...radios, ...(list ? [list] : [])]) {
    input.addEventListener("change", () => choose(input.value));
  }

  // --- tables: a click on a heading sorts, a second one turns it round ---
  const value = (row, column) => {
    const cell = row.cells[column];
    const raw = cell.dataset.value;
    if (raw === undefined) return cell.textContent.trim();
    return raw === "" ? null : Number(raw); // null: not known
  };
  const compare = (a, b) =>
    typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      const body = heading.closest("table").tBodies[0];
      const up = heading.getAttribute("aria-sort") === "descending" ||
        (heading.getAttribute("aria-sort") === null && heading.dataset.first === "ascending");
      for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const column = heading.cellIndex;
      const sorted = [...body.rows].sort((one, two) => {
        const a = value(one, column), b = value(two, column);
        if (a === null || b === null) return (a === null) - (b === null); // not known: last
        return up ? compare(a, b) : compare(b, a);
      });
      body.append(...sorted);
    });
  }

  // --- pictures: what is under the pointer, or chosen with the arrow keys, says its numbers ---
  const tip = document.getElementById("tip");
  let chosen = null;
  function hide() {
    chosen?.classList.remove("on");
    chosen = null;
    tip.classList.remove("on");
  }
  const tell = (mark, x, y) => {
    if (chosen !== mark) hide();
    chosen = mark;
    mark.classList.add("on");
    tip.textContent = mark.dataset.tip;
    tip.classList.add("on");
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x + 14), innerWidth - box.width - 8);
    const top = y - box.height - 12 < 8 ? y + 18 : y - box.height - 12;
    tip.style.left = `${left}px`;
    tip.style.top = `${top}px`;
  };
  const centre = (mark) => {
    const box = mark.getBoundingClientRect();
    return [box.left + box.width / 2, Math.max(box.top, 60)];
  };
  for (const chart of document.querySelectorAll("svg.chart")) {
    const marks = [...chart.querySelectorAll(".mark")];
    chart.addEventListener("pointermove", (event) => {
      const mark = event.target.closest?.(".mark");
      if (mark) tell(mark, event.clientX, event.clientY);
      else hide();
    });
    chart.addEventListener("pointerleave", hide);
    let at = -1; // where the arrow keys are; a scrolling page must not lose it
    chart.addEventListener("blur", () => {
      at = -1;
      hide();
    });
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step || !marks.length) return;
      event.preventDefault();
      at = at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length;
      tell(marks[at], ...centre(marks[at]));
    });
  }
  // --- what can be decided: the slider tells the words of one line of its table ---
  const parts = [...document.querySelectorAll(".decide")];
  const decide = (step) => {
    for (const part of parts) {
      const row = part.querySelectorAll("tr.step")[step];
      part.querySelector("input").value = step;
      part.querySelector("output").textContent = row.dataset.allowed;
      part.querySelector(".unmoved").textContent = `Error rate of at most ${row.dataset.allowed}: `;
      part.querySelector(".words").textContent = row.dataset.told;
      const bar = part.querySelectorAll("rect.bar")[step], dot = part.querySelector(".here");
      const left = Number(bar.getAttribute("x")), width = Number(bar.getAttribute("width"));
      dot.setAttribute("cx", left + width / 2);
      dot.setAttribute("cy", bar.getAttribute("y"));
    }
  };
  for (const part of parts) {
    const slider = part.querySelector("input");
    slider.addEventListener("input", () => decide(Number(slider.value)));
  }

  addEventListener("scroll", hide, { passive: true });

  const first = radios.find((radio) => radio.checked);
  if (first) choose(first.value);
})();
