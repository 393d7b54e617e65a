import type { ComponentChildren } from "preact";
import { useRoute } from "preact-iso";
import type { CallVerdict } from "../../../../src/protocol/room-records.ts";
import { request } from "../../api.ts";
import { type CallEntry, lanesOf } from "../../call-timeline.ts";
import { usePolling } from "../../live.ts";
import { CallEntries, Lanes } from "../../parts/call/lanes.tsx";
import { Encrypted } from "../../parts/encrypted.tsx";
import { Id } from "../../parts/id.tsx";
import { countText } from "../../parts/numbers.ts";
import { useRoomTitle } from "../../parts/room-name.tsx";
import { Badge, Details, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** One call: the timeline of all participants, and each one's verdict. */
export function CallPage() {
  const { callId = "" } = useRoute().params;
  const { at, environment, path } = useProject();
  const routes = at.calls({ callId });
  const call = usePolling(async () => {
    const [shown, timeline] = await Promise.all([
      request(routes.get({ query: { environment } })),
      request(routes.timeline.get({ query: { environment } })),
    ]);
    return { ...shown, timeline: timeline as CallEntry[] };
  }, [callId, environment]);
  return (
    <Loaded live={call}>
      {({ timeline, participants, ...shown }) => (
        <>
          <CallHead roomName={shown.roomName} status={shown.status}>
            {shown.encrypted && <Encrypted title="End-to-end encrypted, so it has no recording." />}
            {shown.recordingIds.map((id, index) => (
              <a key={id} class="button" href={path(`recordings/${id}`)}>
                {shown.recordingIds.length === 1 ? "Recording" : `Recording ${index + 1}`}
              </a>
            ))}
            <a class="button" href={path(`rooms/${shown.roomId}`)}>
              Room
            </a>
            <a class="button" href={path(`connections?roomId=${shown.roomId}`)}>
              Connections
            </a>
          </CallHead>
          <Lanes
            lanes={lanesOf(shown.startedAt, shown.durationMs, participants, timeline)}
            durationMs={shown.durationMs}
          />
          <Details
            items={[
              ["Started", <Ago key="started" at={shown.startedAt} />],
              ["Duration", durationText(shown.durationMs)],
              ["People", countText(shown.participantCount)],
              ["Peak", countText(shown.peakParticipants)],
              ["Minutes used", countText(shown.minutes)],
              ["Id", <Id key="id">{shown.id}</Id>],
            ]}
          />
          <section class="stack">
            <h2>Quality by participant</h2>
            {participants.map((one) => (
              <Verdict key={`${one.connectionId} ${one.joinedAt}`} participant={one} />
            ))}
          </section>
          <section class="stack">
            <h2>Events</h2>
            {timeline.length === 0 ? (
              <div class="empty">Nothing was recorded.</div>
            ) : (
              <CallEntries entries={timeline} />
            )}
          </section>
        </>
      )}
    </Loaded>
  );
}

function CallHead({ roomName, status, children }: { roomName: string; status: string; children: ComponentChildren }) {
  return (
    <PageHead title={`Call in ${useRoomTitle(roomName)}`} badge={status}>
      {children}
    </PageHead>
  );
}

type VerdictProps = {
  participant: {
    identity: string;
    name: string | null;
    connectionId: string;
    joinedAt: string;
    leftAt: string | null;
    leaveReason: string | null;
    verdict: CallVerdict | null;
  };
};

/** The name of a measurement in words, with its value: `uplinkLossPercent` is "uplink loss percent". */
function measurement([name, value]: [string, unknown]): string {
  const words = name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  return `${words}: ${Array.isArray(value) ? value.join(", ") : value}`;
}

/** The verdict on a participant's call quality in a sentence, with its measurements. */
function Verdict({ participant }: VerdictProps) {
  const { path } = useProject();
  const { identity, name, connectionId, joinedAt, leftAt, leaveReason, verdict } = participant;
  const caused = verdict !== null && verdict.cause !== "none";
  return (
    <article class={`card verdict stack ${caused ? "caused" : ""}`}>
      <div class="row between">
        <div class="row">
          <b>{name ?? identity}</b>
          {name !== null && <span class="small quiet">{identity}</span>}
          {verdict && <Badge>{verdict.quality}</Badge>}
          {caused && <Badge>{verdict.cause}</Badge>}
        </div>
        <a class="small" href={path(`connections/${encodeURIComponent(connectionId)}`)}>
          Connection
        </a>
      </div>
      <p>{verdict?.sentence ?? "The server stopped before it could reach a verdict."}</p>
      {caused && <p class="small quiet">{Object.entries(verdict.evidence).map(measurement).join(" · ")}</p>}
      <p class="small quiet">
        Joined <Ago at={joinedAt} />
        {leftAt === null ? (
          ", and is still there"
        ) : (
          <>, left {leaveReason !== "left" && `(${humanize(leaveReason ?? "unknown").toLowerCase()})`} </>
        )}
        {leftAt !== null && <Ago at={leftAt} />}
      </p>
    </article>
  );
}
