import { useState } from "preact/hooks";
import { useFilter } from "../../address.ts";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { Field } from "../../parts/field.tsx";
import { TextInput } from "../../parts/form.tsx";
import { bytesText, countOf, countText } from "../../parts/numbers.ts";
import { Badge, Loaded, PageHead } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";

const EVERY_MS = 2_000;

/** Shows, exports and erases the personal data of one user. */
export function PersonalData() {
  const [userId, setUserId] = useFilter("userId");
  const [typed, setTyped] = useState(userId);
  if (!may("people:read")) {
    return (
      <>
        <PageHead title="Personal data" />
        <div class="empty">Only owners and admins can see personal data.</div>
      </>
    );
  }
  return (
    <>
      <PageHead title="Personal data" />
      <form
        class="row filters"
        onSubmit={(event) => {
          event.preventDefault();
          setUserId(typed.trim());
        }}
      >
        <Field label="User" hint="The user's id in your backend, which is the same in chat and rooms.">
          <TextInput required maxLength={128} value={typed} onValue={setTyped} autocomplete="off" />
        </Field>
        <button type="submit" class="button primary">
          Look up
        </button>
      </form>
      {userId === "" ? (
        <div class="empty">Look up a user to see, export or erase the stored data.</div>
      ) : (
        <Person userId={userId} />
      )}
    </>
  );
}

const KINDS: Record<string, string> = {
  messages: "Messages",
  memberships: "Memberships",
  reactions: "Reactions",
  readStates: "Read states",
  attachments: "Attachments",
  chatConnections: "Chat connections",
  connections: "Connections to rooms",
  calls: "Calls",
  recordedTracks: "Recorded tracks",
  mediaSessions: "Minutes used",
  liveStreams: "Live streams",
  tokens: "Tokens",
};

function Person({ userId }: { userId: string }) {
  const { at, environment, projectId } = useProject();
  const routes = at.people({ userId });
  const query = { environment };
  const personalData = usePolling(() => request(routes.get({ query })), [projectId, environment, userId], EVERY_MS);
  return (
    <Loaded live={personalData}>
      {({ counts, total, erasure, exports }) => (
        <>
          {erasure && (
            <p class={erasure.status === "DONE" ? "note" : "note warn"} role="status">
              {erasure.status === "DONE" ? (
                <>
                  Erased <Ago at={erasure.finishedAt} />. What stands below came after that.
                </>
              ) : (
                "The data is being erased. This continues even if the server restarts."
              )}
            </p>
          )}
          <section class="stack">
            <div class="row between">
              <h2>
                {total === 0 ? `No data is stored about ${userId}` : `${countOf(total, "record")} about ${userId}`}
              </h2>
              {may("people:manage") && (
                <div class="row">
                  <Action
                    run={() => request(routes.exports.post({}, { query })).then(personalData.reload)}
                    done="The export is being created."
                  >
                    Export
                  </Action>
                  <ConfirmButton
                    button="Erase"
                    title={`Erase ${userId}?`}
                    action="Erase everything"
                    typed={userId}
                    done="The erasure has begun."
                    run={() => request(routes.delete({}, { query })).then(personalData.reload)}
                  >
                    The text of their messages and all other data about them, including exports, is erased, and they are
                    disconnected. This cannot be undone: data restored from a backup is erased again.
                  </ConfirmButton>
                </div>
              )}
            </div>
            {total > 0 && (
              <Table
                label="Stored data"
                rows={Object.entries(counts).filter(([, count]) => count > 0)}
                id={([kind]) => kind}
                columns={[
                  { title: "Kind", cell: ([kind]) => KINDS[kind] ?? kind },
                  { title: "Records", cell: ([, count]) => countText(count), number: true },
                ]}
              />
            )}
          </section>
          {exports.length > 0 && (
            <section class="stack">
              <h2>Exports</h2>
              <Table
                label="Exports"
                rows={exports}
                id={({ id }) => id}
                columns={[
                  { title: "Asked for", cell: ({ requestedAt }) => <Ago at={requestedAt} /> },
                  { title: "Status", cell: ({ status }) => <Badge>{status}</Badge> },
                  { title: "Size", cell: ({ bytes }) => (bytes === null ? "–" : bytesText(bytes)), number: true },
                  {
                    title: "Download",
                    cell: ({ url }) => (url === undefined ? "–" : <a href={url}>Download</a>),
                    actions: true,
                  },
                ]}
              />
              <p class="quiet small">A tar of JSON lines and files. It is kept for seven days.</p>
            </section>
          )}
        </>
      )}
    </Loaded>
  );
}
