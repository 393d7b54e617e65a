import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask } from "../api.ts";
import { useLive } from "../live.ts";
import { Field } from "../parts/field.tsx";
import { FormProblem, TextInput, useSubmit } from "../parts/form.tsx";
import { PageHead, Shown } from "../parts/states.tsx";
import { projectPath } from "../place.ts";

/** Your projects; the first of them is made here. */
export function Welcome() {
  const projects = useLive(() => ask(api.v1.projects.get()), []);
  return (
    <>
      <PageHead title="Projects" />
      <Shown live={projects}>
        {(list) => (
          <>
            <ul class="tiles">
              {list.map(({ id, name, role }) => (
                <li key={id}>
                  <a class="card" href={projectPath(id)}>
                    <b>{name}</b>
                    <span class="quiet">{role}</span>
                  </a>
                </li>
              ))}
            </ul>
            <NewProject first={list.length === 0} />
          </>
        )}
      </Shown>
    </>
  );
}

function NewProject({ first }: { first: boolean }) {
  const { route } = useLocation();
  const [name, setName] = useState("");
  const form = useSubmit(async () => {
    const project = await ask(api.v1.projects.post({ name }));
    route(projectPath(project.id, "api-keys"));
  });
  return (
    <form class="card stack" onSubmit={form.onSubmit}>
      <h2>{first ? "Create your first project" : "Another project"}</h2>
      <Field label="Name" error={form.problem("name")} hint="Rooms, chats and keys of one application belong together.">
        <TextInput required maxLength={80} value={name} onValue={setName} />
      </Field>
      <FormProblem failure={form.failure} />
      <button type="submit" class="button primary" disabled={form.busy}>
        Create
      </button>
    </form>
  );
}
