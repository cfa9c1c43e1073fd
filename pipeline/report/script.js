// Filters and sorts the list of flips. Without it the page shows all of them, worst first.
(() => {
  "use strict";
  const table = document.getElementById("flip-table");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const text = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const control = (id) => document.getElementById(id);
  const order = {
    rank: (a, b) => a.dataset.rank - b.dataset.rank,
    moved: (a, b) => b.dataset.moved - a.dataset.moved || order.rank(a, b),
    conversation: (a, b) =>
      a.dataset.conversation.localeCompare(b.dataset.conversation) || order.rank(a, b),
    question: (a, b) => a.dataset.question.localeCompare(b.dataset.question) || order.rank(a, b),
  };

  const show = () => {
    const words = control("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const question = control("question").value;
    const kind = control("kind").value;
    let shown = 0;
    for (const row of rows) {
      const fits =
        (!question || row.dataset.question === question) &&
        (!kind || row.dataset.kind === kind) &&
        words.every((word) => text.get(row).includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    control("shown").textContent = shown === rows.length ? `${shown} shown` : `${shown} of ${rows.length} shown`;
    control("none").hidden = shown > 0;
  };

  control("find").addEventListener("input", show);
  control("question").addEventListener("change", show);
  control("kind").addEventListener("change", show);
  control("sort").addEventListener("change", (event) => {
    body.append(...rows.sort(order[event.target.value]));
  });
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  show();
})();
