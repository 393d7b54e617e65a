import { api, request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { Meter } from "../../parts/bars.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { bitsText, countOf, countText } from "../../parts/numbers.ts";
import { between, LinkState, lossText, rttText, Sites } from "../../parts/sites.tsx";
import { Badge, Figure, Loaded, PageHead } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import { user } from "../../session.ts";

/** The media servers, for operators. */
export function Servers() {
  if (!user.value?.isOperator) {
    return (
      <>
        <PageHead title="Servers" />
        <div class="empty">Only operators of this installation can see its servers.</div>
      </>
    );
  }
  return <Fleet />;
}

function Fleet() {
  const totals = usePolling(() => request(api.v1.rtc.servers.metrics.get()), []);
  const servers = usePolling(() => request(api.v1.rtc.servers.get({ query: { limit: 200 } })), []);
  return (
    <>
      <PageHead title="Servers" />
      <Loaded live={totals}>
        {(fleet) => (
          <ul class="tiles">
            <Figure label="Healthy" value={`${fleet.healthy} of ${fleet.servers}`}>
              {fleet.draining === 0 && fleet.unhealthy === 0
                ? "all healthy"
                : `${fleet.draining} draining, ${fleet.unhealthy} unhealthy`}
            </Figure>
            <Figure label="Rooms" value={countText(fleet.activeRooms)}>
              {fleet.capacity === null ? "no limit set" : `of ${countText(fleet.capacity)}`}
            </Figure>
            <Figure label="Participants" value={countText(fleet.activeParticipants)} />
            <Figure label="Sent" value={bitsText(fleet.networkOutBps)}>
              received {bitsText(fleet.networkInBps)}
            </Figure>
          </ul>
        )}
      </Loaded>
      <Loaded live={servers} isEmpty={(list) => list.length === 0} empty="No media servers are registered.">
        {(list) => (
          <ul class="servers">
            {list.map((server) => (
              <li key={server.name} class="card stack">
                <div class="row between">
                  <div class="row">
                    <h2>{server.name}</h2>
                    <Badge>{server.status}</Badge>
                  </div>
                  <Drain name={server.name} status={server.status} onChanged={servers.reload} />
                </div>
                <p class="quiet small">
                  {server.region} · {server.publicHost} · {server.version ?? "unknown version"} · last seen{" "}
                  <Ago at={server.lastHeartbeatAt} />
                </p>
                <div class="meters">
                  <Meter label="CPU" value={server.cpuPercent} />
                  <Meter label="Memory" value={server.memoryPercent} />
                  <Meter
                    label="Rooms"
                    value={server.capacity === null ? null : server.activeRooms}
                    of={server.capacity ?? 1}
                    text={
                      server.capacity === null
                        ? `${countText(server.activeRooms)}, no limit set`
                        : `${countText(server.activeRooms)} of ${countText(server.capacity)}`
                    }
                  />
                </div>
                <p class="small">
                  {countOf(server.activeParticipants, "participant")} · ↑ {bitsText(server.networkOutBps)} · ↓{" "}
                  {bitsText(server.networkInBps)}
                </p>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <Links />
    </>
  );
}

function Links() {
  const live = usePolling(() => request(api.v1.rtc.links.get()), []);
  return (
    <section class="stack">
      <h2>Links between servers</h2>
      <Loaded
        live={live}
        isEmpty={({ links }) => links.length === 0}
        empty={
          <>
            No room is on several servers. A room spans several when its participants are in several regions, or when a
            server is full or drained. <a href="/docs/operate">Add media servers</a>
          </>
        }
      >
        {({ links, rooms }) => (
          <>
            <Table
              label="Links between servers"
              rows={links}
              id={({ id }) => id}
              columns={[
                { title: "Servers", cell: (link) => <b>{between(link)}</b> },
                { title: "State", cell: (link) => <LinkState {...link} /> },
                { title: "Round trip", number: true, cell: rttText },
                { title: "Lost", number: true, cell: lossText },
                {
                  title: "Carries",
                  number: true,
                  cell: ({ limitBps }) => (limitBps === null ? "all" : bitsText(limitBps)),
                },
                { title: "Tracks", number: true, cell: ({ tracks }) => countText(tracks) },
                { title: "Rooms", number: true, cell: (link) => countText(link.rooms) },
              ]}
            />
            <h2>Rooms on several servers</h2>
            <ul class="servers">
              {rooms.map((room) => (
                <li key={room.id} class="card stack">
                  <a href={`/projects/${room.projectId}/rooms/${room.id}`}>{room.name}</a>
                  <Sites sites={room.sites} links={links.filter(({ id }) => room.links.includes(id))} />
                </li>
              ))}
            </ul>
          </>
        )}
      </Loaded>
    </section>
  );
}

function Drain({ name, status, onChanged }: { name: string; status: string; onChanged: () => void }) {
  const routes = api.v1.rtc.servers({ name });
  if (status === "DRAINING") {
    return (
      <Action done={`${name} accepts rooms again.`} run={() => request(routes.undrain.post()).then(onChanged)}>
        Undrain
      </Action>
    );
  }
  return (
    <ConfirmButton
      title={`Drain ${name}?`}
      action="Drain"
      done={`${name} gets no new rooms.`}
      run={() => request(routes.drain.post()).then(onChanged)}
    >
      It gets no new rooms. Its participants join again on other servers, a few each second; without another server its
      rooms continue until they are empty.
    </ConfirmButton>
  );
}
