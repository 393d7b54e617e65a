import { useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import type { LiveParticipant } from "../../../../src/protocol/room-records.ts";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { Call } from "../../parts/call/call.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { Encrypted } from "../../parts/encrypted.tsx";
import { Id } from "../../parts/id.tsx";
import { RecordButton, RecordingDot } from "../../parts/recording/record-button.tsx";
import { Sites } from "../../parts/sites.tsx";
import { Badge, Details, Loaded, PageHead } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";

const EVERY_MS = 2_000;

const CANNOT_BE_RECORDED = "Never: its media is end-to-end encrypted, and the server has no key to read it";

/** One room: its participants and tracks, and a test call. */
export function OneRoom() {
  const { roomId = "" } = useRoute().params;
  const { at, path } = useProject();
  const routes = at.rooms({ roomId });
  const room = usePolling(() => request(routes.get()), [roomId], EVERY_MS);
  const [inside, setInside] = useState(false);
  return (
    <Loaded live={room}>
      {({
        name,
        status,
        sites,
        links,
        createdAt,
        closedAt,
        participants,
        participantCount,
        region,
        record,
        recording,
        encrypted,
        environment,
      }) => (
        <>
          <PageHead title={name} badge={status}>
            {encrypted && <Encrypted />}
            {recording && <RecordingDot />}
            <a class="button" href={path(`calls?roomId=${roomId}`)}>
              Calls
            </a>
            <a class="button" href={path(`connections?roomId=${roomId}`)}>
              Connections
            </a>
            <a class="button" href={path(`recordings?roomId=${roomId}`)}>
              Recordings
            </a>
            {status === "ACTIVE" && !encrypted && may("recordings:manage") && (
              <RecordButton roomId={roomId} environment={environment} recording={recording} onChanged={room.reload} />
            )}
            {status === "ACTIVE" && may("rooms:manage") && (
              <>
                <button type="button" class="button primary" disabled={inside} onClick={() => setInside(true)}>
                  Join as a test user
                </button>
                <ConfirmButton
                  title="Close this room?"
                  action="Close the room"
                  done="The room was closed."
                  run={() => request(routes.delete()).then(room.reload)}
                >
                  Everyone in {name} is disconnected, and it cannot be opened again. Its name becomes free.
                </ConfirmButton>
              </>
            )}
          </PageHead>
          {inside && (
            <Call
              title="You, for ten minutes"
              admit={() => request(routes["test-token"].post({}))}
              publish
              onLeft={() => setInside(false)}
            />
          )}
          <Details
            items={[
              ["Id", <Id key="id">{roomId}</Id>],
              [
                sites.length > 1 ? "Media servers" : "Media server",
                sites.length > 0 && <Sites key="sites" sites={sites} links={links} />,
              ],
              ["Preferred region", region],
              ["Recorded", encrypted ? CANNOT_BE_RECORDED : record ? "Every call" : "On request"],
              ["Created", <Ago key="created" at={createdAt} />],
              ...(closedAt === null
                ? []
                : [["Closed", <Ago key="closed" at={closedAt} />] as [string, preact.JSX.Element]]),
            ]}
          />
          <section class="stack">
            <h2>Participants</h2>
            {participantCount === null && <p class="note warn">The media server of this room is not responding.</p>}
            {participants.length === 0 ? (
              <div class="empty">There are no participants in this room.</div>
            ) : (
              <ul class="people">
                {participants.map((one) => (
                  <Person key={one.identity} roomId={roomId} participant={one} onChanged={room.reload} />
                ))}
              </ul>
            )}
          </section>
        </>
      )}
    </Loaded>
  );
}

type PersonProps = { roomId: string; participant: LiveParticipant; onChanged: () => void };

export function Person({ roomId, participant, onChanged }: PersonProps) {
  const { at, path } = useProject();
  const { identity, name, state, quality, connectionId, joinedAt, tracks, metadata } = participant;
  const routes = at.rooms({ roomId }).participants({ identity });
  return (
    <li class="card stack">
      <div class="row between">
        <div class="row">
          <b>{name ?? identity}</b>
          {tracks.length > 0 && tracks.every(({ encryption }) => encryption) && <Encrypted />}
          {name !== null && <span class="small quiet">{identity}</span>}
          <Badge>{state}</Badge>
          {quality !== null && <Badge>{quality}</Badge>}
        </div>
        {may("rooms:manage") && (
          <ConfirmButton
            button="Remove"
            label={`Remove ${identity}`}
            title={`Remove ${identity}?`}
            action="Remove"
            done={`${identity} was removed.`}
            run={() => request(routes.delete()).then(onChanged)}
          >
            They are disconnected, and tokens minted so far no longer work for them.
          </ConfirmButton>
        )}
      </div>
      <p class="small quiet">
        Joined <Ago at={joinedAt} /> · <a href={path(`connections/${connectionId}`)}>connection</a>
        {metadata && ` · metadata: ${metadata}`}
      </p>
      {tracks.length > 0 && (
        <ul class="tracks">
          {tracks.map(({ id, kind, source, codec, muted, simulcast, encryption }) => (
            <li key={id} class="row">
              <span>
                {source === "other" ? kind : source}{" "}
                <span class="quiet small">{[codec, simulcast && "simulcast"].filter(Boolean).join(", ")}</span>
                {encryption && <Encrypted title="End-to-end encrypted: recordings and HLS leave this track out." />}
              </span>
              {muted ? (
                <Badge>muted</Badge>
              ) : (
                may("rooms:manage") && (
                  <Action
                    label={`Mute ${source} of ${identity}`}
                    done="Muted. Only the publisher can unmute it."
                    run={() => request(routes.tracks({ trackId: id }).mute.post({ muted: true })).then(onChanged)}
                  >
                    Mute
                  </Action>
                )
              )}
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}
