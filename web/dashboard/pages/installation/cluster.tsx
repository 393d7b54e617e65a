import { api, request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { CodeBlock } from "../../parts/code.tsx";
import { countOf, countText, wholeText } from "../../parts/numbers.ts";
import { Badge, Figure, humanize, Loaded, PageHead } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { Ago } from "../../parts/time.tsx";
import { user } from "../../session.ts";

type Overview = Awaited<ReturnType<typeof read>>;

const EVERY_MS = 2_000;
const read = () => request(api.v1.cluster.get());

/** The servers that share a commit log, for operators. */
export function Cluster() {
  return (
    <>
      <PageHead title="Cluster" />
      {user.value?.isOperator ? (
        <Group />
      ) : (
        <div class="empty">Only operators of this installation can see its servers.</div>
      )}
    </>
  );
}

function Group() {
  const cluster = usePolling(read, [], EVERY_MS);
  return (
    <Loaded live={cluster} isEmpty={({ hasLog }) => !hasLog} empty={<Alone />}>
      {(overview) => (
        <>
          <Warnings {...overview} />
          {overview.logAnswers && (
            <>
              <Figures {...overview} />
              <Members {...overview} />
            </>
          )}
        </>
      )}
    </Loaded>
  );
}

/** How to set up a second server. */
function Alone() {
  return (
    <div class="stack">
      <p>
        This server runs alone. For high availability, add a second server: with a commit log in PostgreSQL, both hold
        the same data, and the second takes over within seconds when the first fails.
      </p>
      <CodeBlock label="the settings" text={SETTINGS} />
      <p>
        Set these on both servers, start this one first, then the second with an empty data directory.{" "}
        <a href="/docs/standby">Set up high availability</a>
      </p>
    </div>
  );
}

const SETTINGS = `# the same on both
COMMIT_LOG_URL=postgres://stoa:password@db.internal:5432/stoa
STOA_SECRET=…
STORAGE_S3_BUCKET=…
# how the other one reaches it
CLUSTER_URL=http://10.0.0.1:7000`;

function Warnings({ logAnswers, hasBucket, members, term, position }: Overview) {
  const others = members.filter(({ role }) => role === "standby");
  const ready = others.filter(({ state }) => state === "ok");
  const versions = new Set(members.map(({ version }) => version));
  return (
    <>
      {!logAnswers && (
        <p class="note bad" role="alert">
          The commit log does not answer: nothing can be written until its Postgres is back. This server leads in term{" "}
          {term}, at position {countText(position)}; what the others do is not known meanwhile.
        </p>
      )}
      {logAnswers && ready.length === 0 && (
        <p class="note warn" role="status">
          {withoutStandby(others)} <a href="/docs/standby">Guide to standbys</a>
        </p>
      )}
      {versions.size > 1 && (
        <p class="note warn" role="status">
          The servers have {countOf(versions.size, "version")}: {[...versions].join(", ")}. Finish the upgrade.
        </p>
      )}
      {!hasBucket && (
        <p class="note warn" role="status">
          No bucket is set, so attachments are refused. Set STORAGE_S3_BUCKET on every server.
        </p>
      )}
    </>
  );
}

function withoutStandby(others: Overview["members"]): string {
  if (others.length === 0) return "There is no standby. If this server fails now, the installation is down.";
  return others.every(({ state }) => state === "silent")
    ? "No standby answers. If this server fails now, the installation is down."
    : "No standby is up to date. If this server fails now, one takes over after it has read the rest of the log.";
}

function Figures({ members, position, term, ledSince, leader }: Overview) {
  const standbys = members.filter(({ role }) => role === "standby");
  const behind = Math.max(0, ...standbys.map(({ lag }) => lag));
  return (
    <ul class="tiles">
      <Figure label="Standbys" value={standbys.filter(({ state }) => state === "ok").length}>
        of {countOf(standbys.length, "standby")}
      </Figure>
      <Figure label="Largest lag" value={standbys.length === 0 ? "–" : countText(behind)}>
        records of the log
      </Figure>
      <Figure label="Last takeover" value={<Ago at={ledSince} />}>
        {leader === null ? "no leader" : `by ${leader}`}
      </Figure>
      <Figure label="Position" value={position === null ? "–" : wholeText(position)}>
        in term {term ?? "–"}
      </Figure>
    </ul>
  );
}

function Members({ members }: Overview) {
  return (
    <Table
      label="Servers of the commit log"
      rows={members}
      id={({ url }) => url}
      columns={[
        { title: "Server", cell: ({ url }) => <b title={url}>{url}</b> },
        { title: "Role", cell: ({ role }) => humanize(role) },
        { title: "State", cell: ({ state }) => <Badge>{state}</Badge> },
        {
          title: "Position",
          number: true,
          cell: ({ role, position }) => (role === "edge" ? "–" : wholeText(position)),
        },
        { title: "Behind", number: true, cell: ({ role, lag }) => (role === "edge" ? "–" : countText(lag)) },
        { title: "Version", cell: ({ version }) => version },
        { title: "Last seen", cell: ({ lastHeardAt }) => <Ago at={lastHeardAt} /> },
      ]}
    />
  );
}
