import type { ComponentChildren } from "preact";
import { useLocation } from "preact-iso";
import { ENVIRONMENTS } from "../../../src/protocol/enums.ts";
import { api, ask } from "../api.ts";
import { useLive } from "../live.ts";
import { environment, projectPath } from "../place.ts";
import { signOut, user } from "../session.ts";
import { Select } from "./form.tsx";

const PROJECT_PAGES = [
  ["", "Overview"],
  ["rooms", "Rooms"],
  ["live-streams", "Live streams"],
  ["chat", "Chat"],
  ["connections", "Connections"],
  ["errors", "Errors"],
  ["webhooks", "Webhooks"],
  ["api-keys", "API keys"],
  ["members", "Members"],
  ["audit-log", "Audit log"],
  ["usage", "Usage"],
  ["diagnostics", "Diagnostics"],
  ["settings", "Settings"],
] as const;

/** The frame around every page: where you are, which project, which environment. */
export function Shell({ children }: { children: ComponentChildren }) {
  const { path, route } = useLocation();
  const projects = useLive(() => ask(api.v1.projects.get()), [], 0);
  const projectId = /^\/projects\/([^/]+)/.exec(path)?.[1];
  return (
    <div class="shell">
      <a class="skip" href="#main">
        Skip to the page
      </a>
      <header class="top">
        <a class="brand" href="/">
          Stoa
        </a>
        {projectId !== undefined && projects.data && (
          <Select
            label="Project"
            value={projectId}
            onValue={(id) => route(projectPath(id))}
            options={projects.data.map(({ id, name }) => ({ value: id, label: name }))}
          />
        )}
        <div class={`environment ${environment.value === "PRODUCTION" ? "production" : ""}`}>
          <Select
            label="Environment"
            value={environment.value}
            onValue={(value) => {
              environment.value = value;
            }}
            options={ENVIRONMENTS}
          />
        </div>
        <a href="/account" class="button quiet">
          {user.value?.name ?? user.value?.email}
        </a>
        <button type="button" class="button quiet" onClick={() => void signOut()}>
          Sign out
        </button>
      </header>
      {projectId !== undefined && (
        <nav class="side" aria-label="Project">
          {PROJECT_PAGES.map(([page, title]) => {
            const href = projectPath(projectId, page);
            const here = page === "" ? path === href : path.startsWith(href);
            return (
              <a key={page} href={href} aria-current={here ? "page" : undefined}>
                {title}
              </a>
            );
          })}
          {user.value?.isOperator && (
            <a href="/servers" aria-current={path === "/servers" ? "page" : undefined}>
              Servers
            </a>
          )}
        </nav>
      )}
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}
