import { useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import { ask } from "../../api.ts";
import { useLive } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { Call } from "../../parts/call/call.tsx";
import { useDescription } from "../../parts/call/stream-fields.tsx";
import { Hosts, Viewers } from "../../parts/call/stream-people.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { FormDialog, useSubmit } from "../../parts/form.tsx";
import { countText } from "../../parts/numbers.ts";
import { Facts, Figure, PageHead, Shown, words } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";
import { user } from "../../session.ts";

const EVERY_MS = 3_000;

/** One live stream: on air and off, who sends, who watches, and a seat in the audience. */
export function OneLiveStream() {
  const { streamId = "" } = useRoute().params;
  const { at, path } = useProject();
  const routes = at["live-streams"]({ streamId });
  const stream = useLive(() => ask(routes.get()), [streamId], EVERY_MS);
  const [seat, setSeat] = useState<"viewer" | "host" | null>(null);
  const [editing, setEditing] = useState(false);
  const me = `dashboard-${user.value?.id.slice(-8)}`;
  return (
    <Shown live={stream}>
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
                    <button type="button" class="button" disabled={seat !== null} onClick={() => setSeat("viewer")}>
                      Watch here
                    </button>
                    <button type="button" class="button" disabled={seat !== null} onClick={() => setSeat("host")}>
                      Send from here
                    </button>
                  </>
                )}
                {shown.status === "CREATED" && (
                  <Action tone="primary" done="On air." run={() => ask(routes.start.post()).then(stream.reload)}>
                    Start
                  </Action>
                )}
                {shown.status === "LIVE" && (
                  <ConfirmButton
                    title="End this live stream?"
                    action="End it"
                    done="The live stream has ended."
                    run={() => ask(routes.end.post()).then(stream.reload)}
                  >
                    Everyone in it is disconnected. An ended stream cannot be started again.
                  </ConfirmButton>
                )}
              </>
            )}
          </PageHead>
          {seat !== null && shown.status !== "ENDED" && (
            <Call
              key={seat}
              title={seat === "host" ? "You, as the host" : "What a viewer sees"}
              publish={seat === "host"}
              admit={async () => {
                if (seat === "viewer") return (await ask(routes["viewer-tokens"].post({ identity: me }))).rtc;
                return (await ask(routes.hosts.post({ identity: shown.hostIdentity }))).rtc;
              }}
              onLeft={() => setSeat(null)}
            />
          )}
          {shown.description && <p class="prose">{shown.description}</p>}
          <ul class="tiles">
            <Figure label="Watching now" value={countText(shown.viewerCount)} />
            <Figure label="Most at once" value={countText(shown.peakViewerCount)} />
          </ul>
          <Facts
            items={[
              ["Id", <code key="id">{shown.id}</code>],
              ["Visibility", words(shown.visibility)],
              ["Planned for", shown.scheduledAt && <Ago key="planned" at={shown.scheduledAt} />],
              ["Started", shown.startedAt && <Ago key="started" at={shown.startedAt} />],
              ["Ended", shown.endedAt && <Ago key="ended" at={shown.endedAt} />],
              ["Category", shown.category],
              ["Language", shown.language],
              ["Tags", shown.tags.join(", ") || null],
              [
                "Room and chat",
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
                await ask(routes.patch(values));
                stream.reload();
                setEditing(false);
              }}
              onClose={() => setEditing(false)}
            />
          )}
        </>
      )}
    </Shown>
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
