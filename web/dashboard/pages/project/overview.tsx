import { useChoice } from "../../address.ts";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { countOf, countText, percentText } from "../../parts/numbers.ts";
import { Plot } from "../../parts/plot.tsx";
import { Figure, Loaded, PageHead } from "../../parts/states.tsx";
import { Choice } from "../../parts/tabs.tsx";
import { durationText } from "../../parts/time.tsx";
import { openProject, useProject } from "../../project.ts";

const RANGES = ["15m", "1h", "24h", "7d"] as const;
type Range = (typeof RANGES)[number];
const SLOW_MS = 15_000;

/** The project's key figures, now and over time. */
export function Overview() {
  const { path } = useProject();
  const [range, setRange] = useChoice("range", RANGES, "1h");
  return (
    <>
      <PageHead title={openProject.value?.name ?? "Overview"}>
        <Choice label="Time" value={range} onValue={setRange} options={RANGES} />
        <a class="button" href={path("start")}>
          Get started
        </a>
      </PageHead>
      <Now range={range} />
      <OverTime range={range} />
    </>
  );
}

function Now({ range }: { range: Range }) {
  const { at, environment, projectId, path } = useProject();
  const here = [projectId, environment];
  const metrics = usePolling(() => request(at.metrics.get({ query: { environment, range } })), [...here, range]);
  const chat = usePolling(() => request(at.chat.overview.get({ query: { environment } })), here);
  const webhooks = usePolling(() => request(at.webhooks.get({ query: { environment, limit: 200 } })), here, SLOW_MS);
  const usage = usePolling(() => request(at.usage.get({ query: { days: 1, limit: 1, environment } })), here, SLOW_MS);
  const failing = webhooks.data?.filter(
    ({ status, consecutiveFailures }) => status !== "ACTIVE" || consecutiveFailures > 0,
  );
  return (
    <Loaded live={metrics}>
      {({ activeRooms, activeParticipants, connectionSuccessRate, connections, joinTimeMs, errors }) => (
        <>
          {activeRooms + connections === 0 && chat.data?.messages === 0 && (
            <p class="note row between">
              Nothing here yet. All you need is an API key and a few lines of code.
              <a class="button primary" href={path("start")}>
                Get started
              </a>
            </p>
          )}
          <ul class="tiles">
            <Figure label="Live rooms" value={countText(activeRooms)} href={path("rooms")}>
              {countOf(activeParticipants, "participant")}
            </Figure>
            <Figure label="Join success" value={percentText(connectionSuccessRate)} href={path("connections")}>
              {countOf(connections, "connection")}, {countOf(errors.total, "error")}
            </Figure>
            <Figure label="Time to join" value={durationText(joinTimeMs.p50)}>
              {joinTimeMs.p95 === null ? "no joins" : `95th percentile ${durationText(joinTimeMs.p95)}`}
            </Figure>
            <Figure label="Messages today" value={countText(chat.data?.messagesToday)} href={path("chat")}>
              {countText(chat.data?.connections)} connected now
            </Figure>
            <Figure
              label="Webhooks"
              value={webhookHealth(webhooks.data?.length, failing?.length)}
              href={path("webhooks")}
            >
              {countOf(webhooks.data?.length, "endpoint")}
            </Figure>
            <Figure label="Minutes used" value={countText(usage.data?.usedMinutes)} href={path("usage")}>
              this month
            </Figure>
          </ul>
        </>
      )}
    </Loaded>
  );
}

function webhookHealth(endpoints: number | undefined, failing: number | undefined): string {
  if (endpoints === undefined || failing === undefined) return "–";
  if (endpoints === 0) return "None";
  return failing === 0 ? "Healthy" : `${failing} failing`;
}

function OverTime({ range }: { range: Range }) {
  const { at, environment, projectId } = useProject();
  const series = usePolling(
    () => request(at.metrics.series.get({ query: { environment, range } })),
    [projectId, environment, range],
  );
  const usage = usePolling(
    () => request(at.usage.get({ query: { days: 30, limit: 1, environment } })),
    [projectId, environment],
    SLOW_MS,
  );
  return (
    <Loaded live={series}>
      {({ points }) => {
        const times = points.map((point) => Date.parse(point.at) / 1000);
        return (
          <div class="plots">
            <Plot
              label="In rooms"
              kind="level"
              times={times}
              series={[
                { label: "Participants", values: points.map(({ participants }) => participants), colour: "accent" },
                { label: "Rooms", values: points.map(({ rooms }) => rooms), colour: "cool" },
              ]}
            />
            <Plot
              label="Joins"
              kind="counts"
              times={times}
              series={[
                {
                  label: "Joined",
                  values: points.map(({ joins, failedJoins }) => joins - failedJoins),
                  colour: "good",
                },
                { label: "Failed", values: points.map(({ failedJoins }) => failedJoins), colour: "bad" },
              ]}
            />
            <Plot
              label="Chat messages"
              kind="counts"
              times={times}
              series={[{ label: "Sent", values: points.map(({ messages }) => messages), colour: "accent" }]}
            />
            <Plot
              label="Webhook attempts"
              kind="counts"
              times={times}
              series={[
                { label: "Delivered", values: points.map(({ deliveries }) => deliveries), colour: "good" },
                { label: "Failed", values: points.map(({ failedDeliveries }) => failedDeliveries), colour: "bad" },
              ]}
            />
            {usage.data && (
              <Plot
                label="Participant-minutes by day"
                kind="days"
                times={usage.data.daily.map(({ date }) => Date.parse(date) / 1000)}
                series={[
                  { label: "Minutes", values: usage.data.daily.map(({ minutes }) => minutes), colour: "accent" },
                ]}
              />
            )}
          </div>
        );
      }}
    </Loaded>
  );
}
