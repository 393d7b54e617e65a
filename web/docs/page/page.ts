/** Search and copying, on top of pages that are whole without either. */
type Entry = { url: string; page: string; heading: string; text: string; code: string };

const MOST_SHOWN = 12;
const AROUND = 60;

const input = document.querySelector<HTMLInputElement>(".search input");
const found = document.querySelector<HTMLUListElement>("#found");
let loading: Promise<Entry[]> | undefined;

if (input && found) search(input, found);
addCopyButtons();
openGuidesOnWideScreens();

function search(input: HTMLInputElement, found: HTMLUListElement): void {
  const load = () => {
    loading ??= fetch("/docs/search.json").then((response) => response.json() as Promise<Entry[]>);
    return loading;
  };
  const show = async () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const hits = words.length === 0 ? [] : best(await load(), words);
    found.replaceChildren(...(hits.length > 0 ? hits.map((entry) => hit(entry, words)) : [nothing()]));
    found.hidden = words.length === 0;
    input.setAttribute("aria-expanded", String(!found.hidden));
  };
  const links = () => [...found.querySelectorAll("a")];
  input.addEventListener("focus", load);
  input.addEventListener("input", show);
  input.form?.addEventListener("submit", (event) => {
    event.preventDefault();
    links()[0]?.click();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !(event.target instanceof HTMLInputElement)) {
      event.preventDefault();
      input.focus();
    }
    if (event.key === "Escape") found.hidden = true;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || found.hidden) return;
    event.preventDefault();
    const all: HTMLElement[] = [input, ...links()];
    all[(all.indexOf(document.activeElement as HTMLElement) + step + all.length) % all.length]?.focus();
  });
  document.addEventListener("click", (event) => {
    if (!input.form?.contains(event.target as Node)) found.hidden = true;
  });
  found.addEventListener("click", () => {
    found.hidden = true;
  });
}

const IN_HEADING = 100;
const IN_PAGE_TITLE = 30;
const IN_TEXT = 10;
const IN_CODE = 1;

/** Every word must be there. A heading outranks prose, and prose outranks code. */
function best(entries: Entry[], words: string[]): Entry[] {
  const score = (entry: Entry) => {
    const [page, heading, text, code] = [entry.page, entry.heading, entry.text, entry.code].map((part) =>
      part.toLowerCase(),
    ) as [string, string, string, string];
    let points = 0;
    for (const word of words) {
      const found =
        Number(heading.includes(word)) * IN_HEADING +
        Number(page.includes(word)) * IN_PAGE_TITLE +
        Number(text.includes(word)) * IN_TEXT +
        Number(code.includes(word)) * IN_CODE;
      if (found === 0) return 0;
      points += found;
    }
    return points;
  };
  return entries
    .map((entry) => ({ entry, points: score(entry) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, MOST_SHOWN)
    .map(({ entry }) => entry);
}

function hit({ url, page, heading, text: prose, code }: Entry, words: string[]): HTMLLIElement {
  const within = (part: string) => words.find((word) => part.toLowerCase().includes(word));
  const text = within(prose) === undefined ? code : prose;
  const item = document.createElement("li");
  const link = item.appendChild(document.createElement("a"));
  link.href = url;
  link.append(page === heading ? page : `${page}: ${heading}`);
  const at = Math.max(0, text.toLowerCase().indexOf(within(text) ?? ""));
  const around = link.appendChild(document.createElement("small"));
  around.append(text.slice(Math.max(0, at - AROUND), at + AROUND * 2).trim());
  return item;
}

function nothing(): HTMLLIElement {
  const item = document.createElement("li");
  item.appendChild(document.createElement("p")).append("No guide contains all of these words.");
  return item;
}

function addCopyButtons(): void {
  for (const block of document.querySelectorAll(".code")) {
    const button = block.appendChild(document.createElement("button"));
    button.type = "button";
    button.append("Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code")?.textContent ?? "");
      button.replaceChildren("Copied");
      setTimeout(() => button.replaceChildren("Copy"), 1_500);
    });
  }
}

/** The list is a column of its own where there is room for one. */
function openGuidesOnWideScreens(): void {
  const wide = matchMedia("(min-width: 761px)");
  const details = document.querySelector<HTMLDetailsElement>(".guides details");
  const follow = () => details?.toggleAttribute("open", wide.matches);
  wide.addEventListener("change", follow);
  follow();
}
