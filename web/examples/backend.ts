/** The page's query parameters, which are passed on to the backend: `?user=anna` names the user. */
export const params: Record<string, string> = Object.fromEntries(new URLSearchParams(location.search));

/** Calls the examples' backend. */
export async function callBackend<T>(path: string, fields: Record<string, string> = {}): Promise<T> {
  const response = await fetch(`${path}?${new URLSearchParams({ ...params, ...fields })}`);
  if (!response.ok) throw new Error(await response.text());
  return (await response.json()) as T;
}

export const app = document.getElementById("app") as HTMLElement;

export function button(label: string, onClick: () => void): HTMLButtonElement {
  const made = Object.assign(document.createElement("button"), { textContent: label, onclick: onClick });
  app.append(made);
  return made;
}

export function line(text: string): HTMLParagraphElement {
  const made = Object.assign(document.createElement("p"), { textContent: text });
  app.append(made);
  return made;
}
