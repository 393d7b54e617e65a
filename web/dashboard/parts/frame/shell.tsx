import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { environment, followAddress, keepInAddress, projectPath } from "../../address.ts";
import { api, ask } from "../../api.ts";
import { useLive } from "../../live.ts";
import { openProject, projectVersion } from "../../project.ts";
import { signOut, user } from "../../session.ts";
import { Select } from "../form.tsx";
import { Shown } from "../states.tsx";
import { EnvironmentSwitch } from "./environment.tsx";
import { Nav } from "./nav.tsx";

const PROJECT_EVERY_MS = 30_000;

/** The frame around every page: where you are, which project, which environment. */
export function Shell({ children }: { children: ComponentChildren }) {
  const { path, url, query, route } = useLocation();
  const [menu, setMenu] = useState(false);
  const projectId = /^\/projects\/([^/]+)/.exec(path)?.[1];
  const projects = useLive(() => ask(api.v1.projects.get({ query: { limit: 200 } })), [projectVersion.value], 0);

  // One that was made since, here or elsewhere, is not in the list yet.
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
        Skip to the page
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
        <EnvironmentSwitch />
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

/** Nothing of a project is shown before it is known who one is in it. */
function InProject({ projectId, children }: { projectId: string; children: ComponentChildren }) {
  const project = useLive(() => ask(api.v1.projects({ projectId }).get()), [projectId], PROJECT_EVERY_MS);
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
    <Shown live={project}>
      {({ id, status }) =>
        openProject.value?.id === id && (
          <>
            {status === "ARCHIVED" && (
              <p class="note warn">This project is archived: its keys no longer work, its data stays readable.</p>
            )}
            {children}
          </>
        )
      }
    </Shown>
  );
}
