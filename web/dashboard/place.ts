import { effect, signal } from "@preact/signals";
import type { Environment } from "../../src/protocol/enums.ts";

const KEY = "stoa-environment";

/** Which environment the pages show; always visible in the head of the page, and remembered for the next visit. */
export const environment = signal<Environment>(
  new URLSearchParams(location.search).get("environment") === "PRODUCTION" || localStorage.getItem(KEY) === "PRODUCTION"
    ? "PRODUCTION"
    : "DEVELOPMENT",
);

effect(() => localStorage.setItem(KEY, environment.value));

/** The address of a project's page. */
export function projectPath(projectId: string, page = ""): string {
  return `/projects/${projectId}${page === "" ? "" : `/${page}`}`;
}
