import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { projectPath } from "../../address.ts";
import { api, request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { newKey } from "../../new-key.ts";
import { Field } from "../../parts/field.tsx";
import { FormDialog, FormEnd, type Submit, TextInput, useSubmit } from "../../parts/form.tsx";
import { Badge, humanize, Loaded, PageHead } from "../../parts/states.tsx";

/** The user's projects, or a form for the first one. */
export function Projects() {
  const projects = usePolling(() => request(api.v1.projects.get({ query: { limit: 200 } })), []);
  const [creating, setCreating] = useState(false);
  return (
    <>
      <PageHead title="Projects">
        <a class="button" href="/playground" target="_blank" rel="noopener">
          Open the playground
        </a>
        {projects.data !== null && projects.data.length > 0 && (
          <button type="button" class="button primary" onClick={() => setCreating(true)}>
            New project
          </button>
        )}
      </PageHead>
      <Loaded live={projects}>
        {(list) =>
          list.length === 0 ? (
            <FirstProject />
          ) : (
            <ul class="tiles projects">
              {[...list].sort(archivedLast).map(({ id, name, role, status, description }) => (
                <li key={id}>
                  <a class="card" href={projectPath(id)}>
                    <b>{name}</b>
                    {description && <span class="quiet small">{description}</span>}
                    <span class="row small">
                      <span class="quiet">{humanize(role ?? "")}</span>
                      {status === "ARCHIVED" && <Badge>{status}</Badge>}
                    </span>
                  </a>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
      {creating && <NewProject onClose={() => setCreating(false)} />}
    </>
  );
}

const archivedLast = (a: { status: string }, b: { status: string }) =>
  Number(a.status === "ARCHIVED") - Number(b.status === "ARCHIVED");

/** Creates a project and its first key, which is shown once on the next page. */
function useNewProject(): { name: string; setName: (name: string) => void; form: Submit } {
  const { route } = useLocation();
  const [name, setName] = useState("");
  const form = useSubmit(async () => {
    const { id: projectId } = await request(api.v1.projects.post({ name }));
    const body = { name: "First key", environment: "DEVELOPMENT" as const };
    const { key } = await request(api.v1.projects({ projectId })["api-keys"].post(body));
    newKey.value = { projectId, key };
    route(projectPath(projectId, "start"));
  });
  return { name, setName, form };
}

const HINT = "A project contains the rooms, conversations and keys of one application.";

function FirstProject() {
  const { name, setName, form } = useNewProject();
  return (
    <form class="card stack first" onSubmit={form.onSubmit}>
      <h2>Create your first project</h2>
      <Field label="Name" error={form.problem("name")} hint={HINT}>
        <TextInput required maxLength={80} value={name} onValue={setName} />
      </Field>
      <FormEnd form={form}>Create the project</FormEnd>
    </form>
  );
}

function NewProject({ onClose }: { onClose: () => void }) {
  const { name, setName, form } = useNewProject();
  return (
    <FormDialog title="New project" action="Create the project" form={form} onClose={onClose}>
      <Field label="Name" error={form.problem("name")} hint={HINT}>
        <TextInput required maxLength={80} value={name} onValue={setName} />
      </Field>
    </FormDialog>
  );
}
