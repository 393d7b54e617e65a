import { useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { Call } from "../../parts/call/call.tsx";
import { useDescription } from "../../parts/call/stream-fields.tsx";
import { Hosts, Viewers } from "../../parts/call/stream-participants.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { FormDialog, useSubmit } from "../../parts/form.tsx";
import { Id } from "../../parts/id.tsx";
import { countText } from "../../parts/numbers.ts";
import { Details, Figure, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";
import { user } from "../../session.ts";

const EVERY_MS = 3_000;

/** One live stream: its state, hosts and viewers, and a preview. */
export function OneLiveStream() {
  const { streamId = "" } = useRoute().params;
  const { at, path } = useProject();
  const routes = at["live-streams"]({ streamId });
  const stream = usePolling(() => request(routes.get()), [streamId], EVERY_MS);
  const [preview, setPreview] = useState<"viewer" | "host" | null>(null);
  const [editing, setEditing] = useState(false);
  const me = `dashboard-${user.value?.id.slice(-8)}`;
  return (
    <Loaded live={stream}>
      {(shown) => (
        <>
          <PageHead title={shown.title} badge={shown.status}>
            {may("streams:manage") && (
              <>
                <button type="button" class="button" onClick={() => setEditing(true)}>
                  Edit
                </button>
                {shown.status !== "ENDED" && (
                  <>
                    <button
                      type="button"
                      class="button"
                      disabled={preview !== null}
                      onClick={() => setPreview("viewer")}
                    >
                      Watch here
                    </button>
                    <button type="button" class="button" disabled={preview !== null} onClick={() => setPreview("host")}>
                      Broadcast from here
                    </button>
                  </>
                )}
                {shown.status === "CREATED" && (
                  <Action tone="primary" done="On air." run={() => request(routes.start.post()).then(stream.reload)}>
                    Start
                  </Action>
                )}
                {shown.status === "LIVE" && (
                  <ConfirmButton
                    title="End this live stream?"
                    action="End the stream"
                    done="The live stream has ended."
                    run={() => request(routes.end.post()).then(stream.reload)}
                  >
                    Everyone in it is disconnected. An ended stream cannot be started again.
                  </ConfirmButton>
                )}
              </>
            )}
          </PageHead>
          {preview !== null && shown.status !== "ENDED" && (
            <Call
              key={preview}
              title={preview === "host" ? "You, as the host" : "What a viewer sees"}
              publish={preview === "host"}
              admit={async () => {
                if (preview === "viewer") return (await request(routes["viewer-tokens"].post({ identity: me }))).rtc;
                return (await request(routes.hosts.post({ identity: shown.hostIdentity }))).rtc;
              }}
              onLeft={() => setPreview(null)}
            />
          )}
          {shown.description && <p class="prose">{shown.description}</p>}
          <ul class="tiles">
            <Figure label="Watching now" value={countText(shown.viewerCount)} />
            <Figure label="Peak viewers" value={countText(shown.peakViewerCount)} />
          </ul>
          <Details
            items={[
              ["Id", <Id key="id">{shown.id}</Id>],
              ["Visibility", humanize(shown.visibility)],
              ["Scheduled for", shown.scheduledAt && <Ago key="planned" at={shown.scheduledAt} />],
              ["Started", shown.startedAt && <Ago key="started" at={shown.startedAt} />],
              ["Ended", shown.endedAt && <Ago key="ended" at={shown.endedAt} />],
              ["Category", shown.category],
              ["Language", shown.language],
              ["Tags", shown.tags.join(", ") || null],
              [
                "Related",
                <span key="parts" class="row">
                  <a href={path(`rooms/${shown.roomId}`)}>Room</a>
                  <a href={path(`chat/conversations/${shown.conversationId}`)}>Chat</a>
                  <a href={path(`recordings?roomId=${shown.roomId}`)}>Recordings</a>
                </span>,
              ],
            ]}
          />
          <Hosts streamId={streamId} hosts={shown.hosts} ended={shown.status === "ENDED"} onChanged={stream.reload} />
          <Viewers streamId={streamId} roomId={shown.roomId} hosts={shown.hosts} />
          {editing && (
            <EditStream
              stream={shown}
              save={async (values) => {
                await request(routes.patch(values));
                stream.reload();
                setEditing(false);
              }}
              onClose={() => setEditing(false)}
            />
          )}
        </>
      )}
    </Loaded>
  );
}

type Described = NonNullable<Parameters<typeof useDescription>[1]>;
type EditProps = { stream: Described; save: (values: Described) => Promise<void>; onClose: () => void };

function EditStream({ stream, save, onClose }: EditProps) {
  const form = useSubmit(() => save(description.values()));
  const description = useDescription(form, stream);
  return (
    <FormDialog title="Edit the live stream" action="Save" form={form} onClose={onClose}>
      {description.title}
      {description.rest}
    </FormDialog>
  );
}
