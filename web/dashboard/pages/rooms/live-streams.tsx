import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { LIVE_STREAM_STATUSES, type LiveStreamStatus } from "../../../../src/protocol/enums.ts";
import { useFilter } from "../../address.ts";
import { request, requestPage } from "../../api.ts";
import { useList } from "../../live.ts";
import { useDescription } from "../../parts/call/stream-fields.tsx";
import { Field } from "../../parts/field.tsx";
import { FormDialog, filterOptions, Select, TextInput, useSubmit } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { countText } from "../../parts/numbers.ts";
import { Badge, humanize, PageHead } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";

export function LiveStreams() {
  const { at, environment, projectId, path } = useProject();
  const [status, setStatus] = useFilter<LiveStreamStatus>("status");
  const [creating, setCreating] = useState(false);
  const streams = useList(
    (page) =>
      requestPage(at["live-streams"].get({ query: { ...page, environment, ...(status !== "" && { status }) } })),
    [projectId, environment, status],
  );
  return (
    <>
      <PageHead title="Live streams">
        {may("streams:manage") && (
          <button type="button" class="button primary" onClick={() => setCreating(true)}>
            Create a live stream
          </button>
        )}
      </PageHead>
      <List
        label="live streams"
        live={streams}
        id={({ id }) => id}
        search={({ title, id, hostIdentity }) => `${title} ${id} ${hostIdentity}`}
        filters={
          <Select
            label="Status"
            value={status}
            onValue={setStatus}
            options={filterOptions("Any status", LIVE_STREAM_STATUSES, humanize)}
          />
        }
        empty="No live streams yet. Each one has its own room and chat."
        columns={[
          { title: "Title", cell: ({ id, title }) => <a href={path(`live-streams/${id}`)}>{title}</a> },
          { title: "Status", cell: (stream) => <Badge>{stream.status}</Badge> },
          { title: "Watching", cell: ({ viewerCount }) => countText(viewerCount), number: true },
          { title: "Peak", cell: ({ peakViewerCount }) => countText(peakViewerCount), number: true, wide: true },
          { title: "Host", cell: ({ hostIdentity }) => hostIdentity, wide: true },
          { title: "Visibility", cell: ({ visibility }) => humanize(visibility), wide: true },
          { title: "Created", cell: ({ createdAt }) => <Ago at={createdAt} />, wide: true },
        ]}
      />
      {creating && <CreateStream onClose={() => setCreating(false)} />}
    </>
  );
}

function CreateStream({ onClose }: { onClose: () => void }) {
  const { at, environment, path } = useProject();
  const { route } = useLocation();
  const [hostIdentity, setHostIdentity] = useState("");
  const [scheduledAt, setScheduledAt] = useState("");
  const form = useSubmit(async () => {
    const scheduled = scheduledAt === "" ? {} : { scheduledAt: new Date(scheduledAt).toISOString() };
    const body = { ...description.values(), hostIdentity, ...scheduled };
    const { id } = await request(at["live-streams"].post(body, { query: { environment } }));
    route(path(`live-streams/${id}`));
  });
  const description = useDescription(form);
  return (
    <FormDialog title="Create a live stream" action="Create" form={form} onClose={onClose}>
      {description.title}
      <Field label="Host" hint="The host's user id in your backend." error={form.problem("hostIdentity")}>
        <TextInput required maxLength={128} value={hostIdentity} onValue={setHostIdentity} />
      </Field>
      {description.rest}
      <Field
        label="Scheduled for"
        hint="Shown to viewers. The stream does not start automatically."
        error={form.problem("scheduledAt")}
      >
        <TextInput type="datetime-local" value={scheduledAt} onValue={setScheduledAt} />
      </Field>
    </FormDialog>
  );
}
