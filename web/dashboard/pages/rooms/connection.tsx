import { useRoute } from "preact-iso";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { ErrorCard, groupErrors } from "../../parts/call/error-card.tsx";
import { Flights } from "../../parts/call/flights.tsx";
import { EventList, Timeline } from "../../parts/call/timeline.tsx";
import { BrowserName } from "../../parts/frame/browser.tsx";
import { Id } from "../../parts/id.tsx";
import { RoomName } from "../../parts/room-name.tsx";
import { Details, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { useProject } from "../../project.ts";

/** One connection with its timeline. */
export function OneConnection() {
  const { connectionId = "" } = useRoute().params;
  const { at, environment, path } = useProject();
  const connection = usePolling(
    () => request(at.connections({ connectionId }).get({ query: { environment } })),
    [connectionId, environment],
  );
  return (
    <Loaded live={connection}>
      {(shown) => (
        <>
          <PageHead title={shown.participantIdentity} badge={shown.state}>
            <a class="button" href={path(`calls?connectionId=${encodeURIComponent(shown.connectionId)}`)}>
              Call
            </a>
            {shown.roomId && (
              <a class="button" href={path(`rooms/${shown.roomId}`)}>
                Room {shown.roomName && <RoomName name={shown.roomName} />}
              </a>
            )}
          </PageHead>
          <Timeline timeline={shown} />
          {groupErrors(shown.errors).map((group) => (
            <ErrorCard key={group[0].id} group={group} />
          ))}
          <Details
            items={[
              ["Started", <Ago key="started" at={shown.startedAt} />],
              ["Joined in", durationText(shown.joinTimeMs)],
              ["Connected for", durationText(shown.durationMs)],
              ["Ended by", shown.disconnectReason && humanize(shown.disconnectReason)],
              ["Round trip", durationText(shown.rttMs)],
              ["Jitter", durationText(shown.jitterMs)],
              ["Packet loss", shown.packetLossPercent === null ? null : `${shown.packetLossPercent.toFixed(1)} %`],
              ["Reconnects", shown.reconnectCount],
              ["Media server", shown.serverName],
              ["Address", shown.ipAddress],
              // The SDK's name is followed by the user agent, which is shown as the browser.
              ["SDK", shown.sdk?.split(" ")[0]],
              ["Browser", <BrowserName key="browser" userAgent={shown.userAgent} />],
              ["Id", <Id key="id">{shown.id}</Id>],
              [
                "Client id",
                <Id key="own" label="client id">
                  {shown.connectionId}
                </Id>,
              ],
            ]}
          />
          <Flights connectionId={shown.id} live={shown.disconnectedAt === null} />
          <section class="stack">
            <h2>Events</h2>
            {shown.events.length === 0 ? (
              <div class="empty">No events were recorded.</div>
            ) : (
              <EventList timeline={shown} />
            )}
          </section>
        </>
      )}
    </Loaded>
  );
}
