import { useRoute } from "preact-iso";
import { ask } from "../../api.ts";
import { useLive } from "../../live.ts";
import { Flights } from "../../parts/call/flights.tsx";
import { Mishap } from "../../parts/call/mishap.tsx";
import { Story, Timeline } from "../../parts/call/timeline.tsx";
import { BrowserName } from "../../parts/frame/browser.tsx";
import { Facts, PageHead, Shown, words } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** What happened to one connection, drawn. */
export function OneConnection() {
  const { connectionId = "" } = useRoute().params;
  const { at, environment, path } = useProject();
  const connection = useLive(
    () => ask(at.connections({ connectionId }).get({ query: { environment } })),
    [connectionId, environment],
  );
  return (
    <Shown live={connection}>
      {(shown) => (
        <>
          <PageHead title={shown.participantIdentity} badge={shown.state}>
            <a class="button" href={path(`calls?connectionId=${encodeURIComponent(shown.connectionId)}`)}>
              Call
            </a>
            {shown.roomId && (
              <a class="button" href={path(`rooms/${shown.roomId}`)}>
                Room {shown.roomName}
              </a>
            )}
          </PageHead>
          <Timeline told={shown} />
          {shown.errors.map((error) => (
            <Mishap key={error.id} error={error} />
          ))}
          <Facts
            items={[
              ["Started", <Ago key="started" at={shown.startedAt} />],
              ["Joined in", durationText(shown.joinTimeMs)],
              ["Connected for", durationText(shown.durationMs)],
              ["Ended by", shown.disconnectReason && words(shown.disconnectReason)],
              ["Round trip", durationText(shown.rttMs)],
              ["Jitter", durationText(shown.jitterMs)],
              ["Packet loss", shown.packetLossPercent === null ? null : `${shown.packetLossPercent.toFixed(1)} %`],
              ["Reconnects", shown.reconnectCount],
              ["Media server", shown.serverName],
              ["Address", shown.ipAddress],
              // It goes on with the browser, which stands beside it.
              ["SDK", shown.sdk?.split(" ")[0]],
              ["Browser", <BrowserName key="browser" userAgent={shown.userAgent} />],
              ["Id", <code key="id">{shown.id}</code>],
              ["Id of the client", <code key="own">{shown.connectionId}</code>],
            ]}
          />
          <Flights connectionId={shown.id} live={shown.disconnectedAt === null} />
          <section class="stack">
            <h2>Step by step</h2>
            {shown.events.length === 0 ? <div class="empty">Nothing was recorded.</div> : <Story told={shown} />}
          </section>
        </>
      )}
    </Shown>
  );
}
