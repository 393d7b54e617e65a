import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { request } from "../../api.ts";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { Field } from "../../parts/field.tsx";
import { Check, FormEnd, FormProblem, SubmitButton, TextArea, TextInput, useSubmit } from "../../parts/form.tsx";
import { Id } from "../../parts/id.tsx";
import { Details, PageHead } from "../../parts/states.tsx";
import { toastDone } from "../../parts/toast.tsx";
import { may, type OpenProject, openProject, projectVersion, useProject } from "../../project.ts";

export function Settings() {
  const project = openProject.value;
  if (!project) return null;
  return (
    <>
      <PageHead title="Settings" />
      {may("project:update") ? (
        <>
          <Name project={project} />
          <Origins project={project} />
        </>
      ) : (
        <section class="card">
          <Details
            items={[
              ["Name", project.name],
              ["Description", project.description],
              ["Allowed origins", project.allowedOrigins.join(", ") || "any"],
              ["Localhost", project.allowLocalhostOrigins ? "allowed" : "not allowed"],
              ["Id", <Id key="id">{project.id}</Id>],
            ]}
          />
        </section>
      )}
      {may("project:archive") && <Archive project={project} />}
    </>
  );
}

function saved(text: string): void {
  projectVersion.value += 1;
  toastDone(text);
}

function Name({ project }: { project: OpenProject }) {
  const { at } = useProject();
  const [name, setName] = useState(project.name);
  const [description, setDescription] = useState(project.description ?? "");
  const form = useSubmit(async () => {
    await request(at.patch({ name, description: description === "" ? null : description }));
    saved("Saved.");
  });
  return (
    <form class="card stack" onSubmit={form.onSubmit}>
      <h2>Project</h2>
      <Field label="Name" error={form.problem("name")}>
        <TextInput required maxLength={80} value={name} onValue={setName} />
      </Field>
      <Field label="Description" error={form.problem("description")}>
        <TextInput maxLength={500} value={description} onValue={setDescription} />
      </Field>
      <p class="quiet small">
        Id <Id>{project.id}</Id>
      </p>
      <FormEnd form={form}>Save</FormEnd>
    </form>
  );
}

function Origins({ project }: { project: OpenProject }) {
  const { at } = useProject();
  const [list, setList] = useState(project.allowedOrigins.join("\n"));
  const [localhost, setLocalhost] = useState(project.allowLocalhostOrigins);
  const form = useSubmit(async () => {
    const allowedOrigins = list.split(/\s+/).filter((line) => line !== "");
    await request(at["allowed-origins"].patch({ allowedOrigins, allowLocalhostOrigins: localhost }));
    saved("The allowed origins were saved.");
  });
  const wrong = form.failure?.details.find(({ field }) => field.startsWith("allowedOrigins"))?.message;
  return (
    <form class="card stack" onSubmit={form.onSubmit}>
      <h2>Allowed origins</h2>
      <Field
        label="Pages that may use this project"
        hint="One per line, with scheme and port, such as https://app.example.com. If empty, all origins are allowed."
        error={wrong}
      >
        <TextArea rows={4} placeholder="https://app.example.com" value={list} onValue={setList} />
      </Field>
      <Check checked={localhost} onChecked={setLocalhost}>
        Also allow localhost on any port
      </Check>
      {wrong === undefined && <FormProblem form={form} />}
      <div class="actions">
        <SubmitButton form={form}>Save the origins</SubmitButton>
      </div>
    </form>
  );
}

function Archive({ project }: { project: OpenProject }) {
  const { at } = useProject();
  const { route } = useLocation();
  return (
    <section class="card stack danger-zone">
      <h2>Archive</h2>
      <p>Its keys stop working and it becomes read-only. Members can still read its data.</p>
      <div>
        <ConfirmButton
          button="Archive the project"
          title="Archive this project?"
          action="Archive"
          typed={project.name}
          done={`${project.name} was archived.`}
          run={async () => {
            await request(at.delete());
            projectVersion.value += 1;
            route("/");
          }}
        >
          Every API key of {project.name} is refused from now on. This cannot be undone.
        </ConfirmButton>
      </div>
    </section>
  );
}
