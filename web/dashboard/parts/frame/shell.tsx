import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { environment, followAddress, keepInAddress, projectPath } from "../../address.ts";
import { api, request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { openProject, projectVersion } from "../../project.ts";
import { signOut, user } from "../../session.ts";
import { Select } from "../form.tsx";
import { Loaded } from "../states.tsx";
import { EnvironmentSwitch } from "./environment.tsx";
import { Nav } from "./nav.tsx";
import { Palette } from "./palette.tsx";
import { ThemeSwitch } from "./theme-switch.tsx";

const PROJECT_EVERY_MS = 30_000;

/** The frame of every page with the project, the environment and the navigation. */
export function Shell({ children }: { children: ComponentChildren }) {
  const { path, url, query, route } = useLocation();
  const [menu, setMenu] = useState(false);
  const projectId = /^\/projects\/([^/]+)/.exec(path)?.[1];
  const projects = usePolling(() => request(api.v1.projects.get({ query: { limit: 200 } })), [projectVersion.value], 0);

  // A project that was just created is not in the list yet.
  useEffect(() => {
    if (projectId !== undefined && projects.data?.some(({ id }) => id === projectId) === false) projects.reload();
  }, [projectId]);
  useEffect(() => {
    followAddress(query);
  }, [url]);
  useEffect(() => {
    if (projectId !== undefined) keepInAddress(environment.value);
  }, [url, environment.value]);

  return (
    <div class={`shell ${environment.value === "PRODUCTION" ? "in-production" : ""}`}>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="top">
        <button
          type="button"
          class="button quiet menu"
          aria-expanded={menu}
          aria-controls="nav"
          onClick={() => setMenu(!menu)}
        >
          Menu
        </button>
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
        {projectId !== undefined && <EnvironmentSwitch />}
        <Palette />
        <ThemeSwitch />
        <div class="who">
          <a href="/account">{user.value?.name || user.value?.email}</a>
          <button type="button" class="button quiet" onClick={() => void signOut()}>
            Sign out
          </button>
        </div>
      </header>
      <Nav open={menu} onGo={() => setMenu(false)} />
      <main id="main" tabIndex={-1}>
        {projectId === undefined ? children : <InProject projectId={projectId}>{children}</InProject>}
      </main>
    </div>
  );
}

/** Loads the project and the user's role before any of its pages. */
function InProject({ projectId, children }: { projectId: string; children: ComponentChildren }) {
  const project = usePolling(() => request(api.v1.projects({ projectId }).get()), [projectId], PROJECT_EVERY_MS);
  useEffect(() => {
    project.reload();
  }, [projectVersion.value]);
  useEffect(() => {
    openProject.value = project.data;
  }, [project.data]);
  useEffect(() => {
    return () => {
      openProject.value = null;
    };
  }, []);
  return (
    <Loaded live={project}>
      {({ id, status }) =>
        openProject.value?.id === id && (
          <>
            {status === "ARCHIVED" && (
              <p class="note warn">
                This project is archived: its keys no longer work, but its data is still readable.
              </p>
            )}
            {children}
          </>
        )
      }
    </Loaded>
  );
}
