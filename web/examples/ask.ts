/** What the examples' backend answers; the page's own address says who it is. */
export const place: Record<string, string> = Object.fromEntries(new URLSearchParams(location.search));

export async function ask<T>(path: string, fields: Record<string, string> = {}): Promise<T> {
  const response = await fetch(`${path}?${new URLSearchParams({ ...place, ...fields })}`);
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as T;
}

export const app = document.getElementById("app") as HTMLElement;

export function button(label: string, act: () => void): HTMLButtonElement {
  const made = Object.assign(document.createElement("button"), { textContent: label, onclick: act });
  app.append(made);
  return made;
}

export function line(text: string): HTMLParagraphElement {
  const made = Object.assign(document.createElement("p"), { textContent: text });
  app.append(made);
  return made;
}
