import { useRoute } from "preact-iso";
import type { CallVerdict } from "../../../../src/protocol/room-records.ts";
import { ask } from "../../api.ts";
import { type CallEntry, lanesOf } from "../../call-story.ts";
import { useLive } from "../../live.ts";
import { CallStory, Lanes } from "../../parts/call/lanes.tsx";
import { countText } from "../../parts/numbers.ts";
import { Badge, Facts, PageHead, Shown, words } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** One call: everybody on one time line, and for each of them why it was as it was. */
export function OneCall() {
  const { callId = "" } = useRoute().params;
  const { at, environment, path } = useProject();
  const routes = at.calls({ callId });
  const call = useLive(async () => {
    const [shown, timeline] = await Promise.all([
      ask(routes.get({ query: { environment } })),
      ask(routes.timeline.get({ query: { environment } })),
    ]);
    return { ...shown, timeline: timeline as CallEntry[] };
  }, [callId, environment]);
  return (
    <Shown live={call}>
      {({ timeline, participants, ...shown }) => (
        <>
          <PageHead title={`Call in ${shown.roomName}`} badge={shown.status}>
            <a class="button" href={path(`rooms/${shown.roomId}`)}>
              Room {shown.roomName}
            </a>
            <a class="button" href={path(`connections?roomId=${shown.roomId}`)}>
              Connections
            </a>
          </PageHead>
          <Lanes
            lanes={lanesOf(shown.startedAt, shown.durationMs, participants, timeline)}
            durationMs={shown.durationMs}
          />
          <Facts
            items={[
              ["Started", <Ago key="started" at={shown.startedAt} />],
              ["Lasted", durationText(shown.durationMs)],
              ["People", countText(shown.participantCount)],
              ["At once", countText(shown.peakParticipants)],
              ["Minutes used", countText(shown.minutes)],
              ["Id", <code key="id">{shown.id}</code>],
            ]}
          />
          <section class="stack">
            <h2>How it was, and why</h2>
            {participants.map((one) => (
              <Verdict key={`${one.connectionId} ${one.joinedAt}`} participant={one} />
            ))}
          </section>
          <section class="stack">
            <h2>Step by step</h2>
            {timeline.length === 0 ? <div class="empty">Nothing was recorded.</div> : <CallStory entries={timeline} />}
          </section>
        </>
      )}
    </Shown>
  );
}

type VerdictProps = {
  participant: {
    identity: string;
    connectionId: string;
    joinedAt: string;
    leftAt: string | null;
    leaveReason: string | null;
    verdict: CallVerdict | null;
  };
};

/** Why somebody's call was good or bad, in a sentence that can be read aloud, and what it was measured by. */
function Verdict({ participant }: VerdictProps) {
  const { path } = useProject();
  const { identity, connectionId, joinedAt, leftAt, leaveReason, verdict } = participant;
  const caused = verdict !== null && verdict.cause !== "none";
  return (
    <article class={`card verdict stack ${caused ? "caused" : ""}`}>
      <div class="row between">
        <div class="row">
          <b>{identity}</b>
          {verdict && <Badge>{verdict.quality}</Badge>}
          {caused && <Badge>{verdict.cause}</Badge>}
        </div>
        <a class="small" href={path(`connections/${encodeURIComponent(connectionId)}`)}>
          The connection
        </a>
      </div>
      <p>{verdict?.sentence ?? "The server stopped before anything could be said."}</p>
      {caused && (
        <p class="small mono quiet">
          {Object.entries(verdict.evidence)
            .map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
            .join(" · ")}
        </p>
      )}
      <p class="small quiet">
        Joined <Ago at={joinedAt} />
        {leftAt === null ? (
          ", and is still there"
        ) : (
          <>, left {leaveReason !== "left" && `(${words(leaveReason ?? "unknown").toLowerCase()})`} </>
        )}
        {leftAt !== null && <Ago at={leftAt} />}
      </p>
    </article>
  );
}
