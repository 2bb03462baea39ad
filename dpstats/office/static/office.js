// The plan below the formula, the search of a codebook, and pages that wait. Every page works without it.
"use strict";

const plan = document.getElementById("plan");
const form = document.querySelector("form[data-live]");

if (plan && form) {
  let timer, pending;
  const refresh = async () => {
    pending?.abort();
    pending = new AbortController();
    const query = new URLSearchParams(new FormData(form));
    try {
      const answer = await fetch(form.dataset.live, { method: "POST", body: query, signal: pending.signal });
      if (answer.status === 401) return location.reload();
      if (answer.status === 429) return void (timer = setTimeout(refresh, 1500));
      if (!answer.ok) throw new Error(answer.status);
      plan.innerHTML = await answer.text();
      plan.removeAttribute("aria-busy");
      document.getElementById("spoken").textContent = plan.querySelector("[data-spoken]")?.textContent ?? "";
    } catch (error) {
      if (error.name !== "AbortError") plan.textContent = "The plan did not arrive. Press “Show the plan”.";
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    // Nobody spends on a plan of what was typed before.
    plan.querySelectorAll("form button").forEach((button) => { button.disabled = true; });
    plan.setAttribute("aria-busy", "true");
    timer = setTimeout(refresh, 400);
  });
  document.querySelectorAll("[data-insert]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => {
      const field = form.querySelector("[data-terms]");
      const text = field.value.trimEnd();
      const joint = !text || /[~+*:(,]$/.test(text) ? " " : field.dataset.terms;
      field.value = (text + joint + button.dataset.insert).trimStart();
      field.focus();
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
  });
}

document.querySelectorAll("[data-filter]").forEach((field) => {
  const rows = document.querySelectorAll(`${field.dataset.filter} tbody tr`);
  const count = document.getElementById(field.getAttribute("aria-describedby"));
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    let shown = 0;
    rows.forEach((row) => {
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
      shown += !row.hidden;
    });
    if (count) count.textContent = `${shown} of ${rows.length} columns`;
  });
});

document.querySelectorAll("form").forEach((one) => one.addEventListener("submit", () => {
  // A second press would send the same request again, which is charged once in any case.
  setTimeout(() => one.querySelectorAll("button").forEach((button) => { button.disabled = one.method === "post"; }));
}));

const waiting = document.querySelector("[data-poll]");
if (waiting) {
  const look = async () => {
    try {
      const answer = await fetch(waiting.dataset.poll);
      const changed = answer.ok && (await answer.text()) !== waiting.dataset.state;
      if (changed || answer.redirected) return location.reload();
    } catch { /* the office does not answer: look again later */ }
    return setTimeout(look, 3000);
  };
  setTimeout(look, 1500);
}
