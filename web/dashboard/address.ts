import { effect, signal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { ENVIRONMENTS, type Environment } from "../../src/protocol/enums.ts";

const KEY = "stoa-environment";
const PARAMETER = "environment";

function known(text: string | null | undefined): Environment | undefined {
  return ENVIRONMENTS.find((name) => name === text);
}

/** Which environment the pages show: the one in the address, or the one of the last visit. */
export const environment = signal<Environment>(
  known(new URLSearchParams(location.search).get(PARAMETER)) ?? known(localStorage.getItem(KEY)) ?? "DEVELOPMENT",
);

effect(() => {
  localStorage.setItem(KEY, environment.value);
});

/** Going back to an address that names an environment goes back to that environment as well. */
export function followAddress(query: Record<string, string>): void {
  environment.value = known(query[PARAMETER]) ?? environment.peek();
}

/** A link that is copied from the address bar shows its reader what its sender saw. */
export function keepInAddress(chosen: Environment): void {
  const url = new URL(location.href);
  if (url.searchParams.get(PARAMETER) === chosen) return;
  url.searchParams.set(PARAMETER, chosen);
  history.replaceState(history.state, "", url);
}

/** The address of a project's page. */
export function projectPath(projectId: string, page = ""): string {
  return `/projects/${projectId}${page === "" ? "" : `/${page}`}`;
}

/** A choice with a default, which the address need not name. */
export function useChoice<T extends string>(name: string, options: readonly T[], usual: T): [T, (value: T) => void] {
  const [given, set] = useFilter(name);
  return [options.find((option) => option === given) ?? usual, (value) => set(value === usual ? "" : value)];
}

/** A filter that is part of the address: it survives a reload, and a link to it can be sent. */
export function useFilter<T extends string = string>(name: string): [value: T | "", set: (value: T | "") => void] {
  const { query, route } = useLocation();
  const set = (value: string) => {
    const url = new URL(location.href);
    if (value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
    route(`${url.pathname}${url.search}`, true);
  };
  return [(query[name] ?? "") as T | "", set];
}
