import { AUDIT_ACTIONS, type AuditActionName, type AuditActorType } from "../../../../src/protocol/enums.ts";
import { useFilter } from "../../address.ts";
import { request, requestPage } from "../../api.ts";
import { csvOf, download } from "../../csv.ts";
import { useList, usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { Select, TextInput } from "../../parts/form.tsx";
import { List } from "../../parts/list.tsx";
import { humanize, PageHead } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";

const COLUMNS = [
  "createdAt",
  "action",
  "actorType",
  "actorEmail",
  "actorName",
  "resourceType",
  "resourceId",
  "environment",
  "metadata",
  "ipAddress",
  "userAgent",
  "requestId",
  "publicId",
] as const;

/** The project's audit log, which cannot be changed. */
export function AuditLog() {
  if (!may("audit:read")) {
    return (
      <>
        <PageHead title="Audit log" />
        <div class="empty">Only owners and admins of the project can see its audit log.</div>
      </>
    );
  }
  return <Entries />;
}

function Entries() {
  const { at, projectId } = useProject();
  const [action, setAction] = useFilter<AuditActionName>("action");
  const [actorId, setActorId] = useFilter("actorId");
  const [resourceId, setResourceId] = useFilter("resourceId");
  const members = usePolling(() => request(at.members.get({ query: { limit: 200 } })), [projectId], 0);
  const read = (page: { limit: number; cursor?: string }) => {
    const asked = { ...(action && { action }), ...(actorId && { actorId }), ...(resourceId && { resourceId }) };
    return requestPage(at["audit-logs"].get({ query: { ...page, ...asked } }));
  };
  const entries = useList(read, [projectId, action, actorId, resourceId]);
  const saveAll = async () => {
    const all: Awaited<ReturnType<typeof read>>["rows"] = [];
    let cursor: string | undefined;
    do {
      const { rows, next } = await read({ limit: 200, ...(cursor && { cursor }) });
      all.push(...rows);
      cursor = next;
    } while (cursor !== undefined);
    download("audit-log.csv", csvOf(COLUMNS, all));
  };
  return (
    <>
      <PageHead title="Audit log">
        <Action run={saveAll}>Export CSV</Action>
      </PageHead>
      <List
        label="audit entries"
        live={entries}
        id={({ publicId }) => publicId}
        search={(one) => [actorOf(one), one.action, one.resourceId, one.ipAddress, one.requestId].join(" ")}
        filters={
          <>
            <Select
              label="Action"
              value={action}
              onValue={setAction}
              options={[{ value: "", label: "Any action" }, ...AUDIT_ACTIONS]}
            />
            <Select
              label="Actor"
              value={actorId}
              onValue={setActorId}
              options={[
                { value: "", label: "All users" },
                ...(members.data ?? []).map(({ userId, email }) => ({ value: userId, label: email })),
              ]}
            />
            <TextInput label="Resource id" placeholder="Resource id" value={resourceId} onValue={setResourceId} />
          </>
        }
        empty="No entries match this filter."
        columns={[
          { title: "When", cell: ({ createdAt }) => <Ago at={createdAt} /> },
          { title: "Action", cell: (one) => <code>{one.action}</code> },
          { title: "Who", cell: actorOf },
          { title: "What", cell: ({ resourceType }) => humanize(resourceType), wide: true },
          {
            title: "Details",
            prose: true,
            cell: ({ metadata }) => <span class="small mono">{detail(metadata)}</span>,
            wide: true,
          },
          { title: "Environment", cell: ({ environment }) => humanize(environment ?? ""), wide: true },
          { title: "From", cell: ({ ipAddress }) => <code>{ipAddress ?? "–"}</code>, wide: true },
        ]}
      />
    </>
  );
}

function actorOf({ actorType, actorEmail, actorName }: Actor): string {
  switch (actorType) {
    case "user":
      return actorEmail ?? "a removed user";
    case "api_key":
      return actorName === null ? "an API key" : `API key ${actorName}`;
    case "command_line":
      return "the command line";
  }
}

type Actor = { actorType: AuditActorType; actorEmail: string | null; actorName: string | null };

function detail(metadata: Record<string, unknown>): string {
  return Object.entries(metadata)
    .map(([name, value]) => `${name}: ${Array.isArray(value) ? value.join(", ") : String(value)}`)
    .join("; ");
}
