import { effect, signal } from "@preact/signals";
import { useLocation } from "preact-iso";
import { ENVIRONMENTS, type Environment } from "../../src/protocol/enums.ts";

const KEY = "stoa-environment";
const PARAMETER = "environment";

function known(text: string | null | undefined): Environment | undefined {
  return ENVIRONMENTS.find((name) => name === text);
}

/** The environment that the pages show: that of the address, or the last one used. */
export const environment = signal<Environment>(
  known(new URLSearchParams(location.search).get(PARAMETER)) ?? known(localStorage.getItem(KEY)) ?? "DEVELOPMENT",
);

effect(() => {
  localStorage.setItem(KEY, environment.value);
});

/** Navigating back to an address with an environment also restores that environment. */
export function followAddress(query: Record<string, string>): void {
  environment.value = known(query[PARAMETER]) ?? environment.peek();
}

/** Keeps the environment in the address, so that a copied link shows the same data. */
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

/** A choice that is kept in the address unless it is the default. */
export function useChoice<T extends string>(name: string, options: readonly T[], usual: T): [T, (value: T) => void] {
  const [given, set] = useFilter(name);
  return [options.find((option) => option === given) ?? usual, (value) => set(value === usual ? "" : value)];
}

/** A filter that is kept in the address, so that it survives a reload and can be shared as a link. */
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
