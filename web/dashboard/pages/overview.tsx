import { useState } from "preact/hooks";
import { api, ask } from "../api.ts";
import { useLive } from "../live.ts";
import { countOf, countText, percentText } from "../parts/numbers.ts";
import { Plot } from "../parts/plot.tsx";
import { Figure, PageHead, Shown } from "../parts/states.tsx";
import { Choice } from "../parts/tabs.tsx";
import { durationText } from "../parts/time.tsx";
import { openProject, useProject } from "../project.ts";

const RANGES = ["15m", "1h", "24h", "7d"] as const;
type Range = (typeof RANGES)[number];
const SLOW_MS = 15_000;

/** How the project is doing, now and over time. */
export function Overview() {
  const { path } = useProject();
  const [range, setRange] = useState<Range>("1h");
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
  const metrics = useLive(() => ask(at.metrics.get({ query: { environment, range } })), [...here, range]);
  const chat = useLive(() => ask(at.chat.overview.get({ query: { environment } })), here);
  const webhooks = useLive(() => ask(at.webhooks.get({ query: { environment, limit: 200 } })), here, SLOW_MS);
  const usage = useLive(() => ask(api.v1.usage.get()), [], SLOW_MS);
  const failing = webhooks.data?.filter(
    ({ status, consecutiveFailures }) => status !== "ACTIVE" || consecutiveFailures > 0,
  );
  return (
    <Shown live={metrics}>
      {({ activeRooms, activeParticipants, connectionSuccessRate, connections, joinTimeMs, errors }) => (
        <ul class="tiles">
          <Figure label="Live rooms" value={countText(activeRooms)} href={path("rooms")}>
            {countOf(activeParticipants, "participant")}
          </Figure>
          <Figure label="Join success" value={percentText(connectionSuccessRate)} href={path("connections")}>
            {countOf(connections, "connection")}, {countOf(errors.total, "error")}
          </Figure>
          <Figure label="Time to join" value={durationText(joinTimeMs.p50)}>
            one in twenty over {durationText(joinTimeMs.p95)}
          </Figure>
          <Figure label="Messages today" value={countText(chat.data?.messagesToday)} href={path("chat")}>
            {countText(chat.data?.connections)} connected
          </Figure>
          <Figure
            label="Webhooks"
            value={failing === undefined ? "–" : failing.length === 0 ? "Healthy" : `${failing.length} failing`}
            href={path("webhooks")}
          >
            {countOf(webhooks.data?.length, "endpoint")}
          </Figure>
          <Figure label="Minutes this month" value={countText(usage.data?.usedMinutes)} href={path("usage")}>
            {percentText(usage.data && usage.data.usedPercent / 100)} of your account's
          </Figure>
        </ul>
      )}
    </Shown>
  );
}

function OverTime({ range }: { range: Range }) {
  const { at, environment, projectId } = useProject();
  const series = useLive(
    () => ask(at.metrics.series.get({ query: { environment, range } })),
    [projectId, environment, range],
  );
  const usage = useLive(() => ask(at.usage.get({ query: { days: 30, limit: 1 } })), [projectId], SLOW_MS);
  return (
    <Shown live={series}>
      {({ points }) => {
        const times = points.map((point) => Date.parse(point.at) / 1000);
        return (
          <div class="plots">
            <Plot
              label="In rooms"
              times={times}
              series={[
                { label: "Participants", values: points.map(({ participants }) => participants), colour: "accent" },
                { label: "Rooms", values: points.map(({ rooms }) => rooms), colour: "warn" },
              ]}
            />
            <Plot
              label="Joins"
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
              label="Chat"
              times={times}
              series={[{ label: "Messages", values: points.map(({ messages }) => messages), colour: "accent" }]}
            />
            <Plot
              label="Webhook attempts"
              times={times}
              series={[
                { label: "Delivered", values: points.map(({ deliveries }) => deliveries), colour: "good" },
                { label: "Failed", values: points.map(({ failedDeliveries }) => failedDeliveries), colour: "bad" },
              ]}
            />
            {usage.data && (
              <Plot
                label="Minutes by day"
                bars
                times={usage.data.daily.map(({ date }) => Date.parse(date) / 1000)}
                series={[
                  { label: "Minutes", values: usage.data.daily.map(({ minutes }) => minutes), colour: "accent" },
                ]}
              />
            )}
          </div>
        );
      }}
    </Shown>
  );
}
