type Route = { method: string; path: string };

/** Which methods a path exists with; asked only for requests that matched no route. */
export function createMethodsOf(routes: () => readonly Route[]): (path: string) => string[] {
  let table: { pattern: RegExp; method: string }[] | null = null;
  return (path) => {
    table ??= routes()
      .filter(({ method, path: template }) => method !== "WS" && !template.endsWith("*"))
      .map(({ method, path: template }) => ({ method, pattern: patternOf(template) }));
    return [...new Set(table.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method))];
  };
}

function patternOf(template: string): RegExp {
  const source = template
    .replace(/\/$/, "")
    .replace(/[.+?^${}()|[\]\\]/g, "\\$&")
    .replace(/:[^/]+/g, "[^/]+");
  return new RegExp(`^${source}/?$`);
}
