import { useState } from "preact/hooks";
import type { Report, ReportAction } from "../../../../src/protocol/chat-records.ts";
import { useFilter } from "../../address.ts";
import { request, requestPage } from "../../api.ts";
import { useList, usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { Field } from "../../parts/field.tsx";
import { FormEnd, Select, TextArea, useSubmit } from "../../parts/form.tsx";
import { Badge, humanize, Loaded } from "../../parts/states.tsx";
import { Ago } from "../../parts/time.tsx";
import { toastDone } from "../../parts/toast.tsx";
import { useProject } from "../../project.ts";

/** Messages reported by users or the word list. Only this page shows message texts. */
export function Reports() {
  const { at, environment, projectId } = useProject();
  const [shown, setShown] = useFilter<"RESOLVED">("status");
  const status = shown || "OPEN";
  const reports = useList(
    (page) => requestPage(at.chat.reports.get({ query: { ...page, environment, status } })),
    [projectId, environment, status],
  );
  return (
    <section class="stack">
      <div class="row filters">
        <Select
          label="Status"
          value={status}
          onValue={(value) => setShown(value === "OPEN" ? "" : value)}
          options={[
            { value: "OPEN", label: "Open" },
            { value: "RESOLVED", label: "Resolved" },
          ]}
        />
      </div>
      <Loaded
        live={reports}
        isEmpty={(rows) => rows.length === 0}
        empty={status === "OPEN" ? "No open reports. Reports by your users appear here." : "Nothing yet."}
      >
        {(rows) => (
          <ul class="reports">
            {rows.map((report) => (
              <li key={report.id}>
                <OneReport report={report as Report} onDone={reports.reload} />
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {reports.more && (
        <div class="row">
          <button type="button" class="button" onClick={reports.showMore}>
            Show more
          </button>
        </div>
      )}
    </section>
  );
}

function OneReport({ report, onDone }: { report: Report; onDone: () => void }) {
  const { at, environment, path } = useProject();
  const { id, senderId, reporterId, reason, note, status, action, message, conversationId, createdAt } = report;
  const resolve = async (chosen: ReportAction) => {
    await request(at.chat.reports({ reportId: id }).resolve.post({ action: chosen }, { query: { environment } }));
    onDone();
  };
  return (
    <article class="card stack report">
      <header class="row">
        <Badge>{humanize(reason)}</Badge>
        <span>
          {reporterId === null ? "The word list" : <b>{reporterId}</b>} reported{" "}
          {senderId === null ? "a message of the server" : <b>{senderId}</b>}
        </span>
        <span class="quiet small">
          <Ago at={createdAt} /> in <a href={path(`chat/conversations/${conversationId}`)}>the conversation</a>
        </span>
      </header>
      {message === null || message.deleted ? (
        <p class="quiet">The message is gone.</p>
      ) : (
        <blockquote>{message.text ?? message.attachment?.filename ?? "(no text)"}</blockquote>
      )}
      {note !== null && <p class="quiet small">“{note}”</p>}
      {status === "RESOLVED" ? (
        <p class="quiet small">Resolved: {humanize(action ?? "none")}</p>
      ) : (
        <div class="actions">
          <Action run={() => resolve("none")} done="Dismissed." tone="quiet">
            Dismiss report
          </Action>
          {message !== null && !message.deleted && (
            <ConfirmButton
              title="Delete the message?"
              action="Delete message"
              run={() => resolve("delete_message")}
              done="The message is deleted."
            >
              It is deleted for everyone and cannot be restored.
            </ConfirmButton>
          )}
          {senderId !== null && (
            <>
              <Action run={() => resolve("mute_sender")} done={`${senderId} is muted for a day.`}>
                Mute for a day
              </Action>
              <ConfirmButton
                title={`Ban ${senderId}?`}
                action="Ban"
                run={() => resolve("ban_sender")}
                done={`${senderId} is banned.`}
              >
                They can neither read nor write in this conversation until your backend lifts the ban.
              </ConfirmButton>
            </>
          )}
        </div>
      )}
    </article>
  );
}

type Lists = { refuse: string[]; mask: string[]; report: string[] };

/** The lists of words to refuse, mask or report. */
export function WordLists() {
  const { at, environment, projectId } = useProject();
  const list = usePolling(
    () => request(at.chat["word-list"].get({ query: { environment } })),
    [projectId, environment],
    0,
  );
  return <Loaded live={list}>{(lists) => <WordForm key={environment} lists={lists} />}</Loaded>;
}

const lines = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

function WordForm({ lists }: { lists: Lists }) {
  const { at, environment } = useProject();
  const [refuse, setRefuse] = useState(lists.refuse.join("\n"));
  const [mask, setMask] = useState(lists.mask.join("\n"));
  const [report, setReport] = useState(lists.report.join("\n"));
  const form = useSubmit(async () => {
    const body = { refuse: lines(refuse), mask: lines(mask), report: lines(report) };
    await request(at.chat["word-list"].put(body, { query: { environment } }));
    toastDone("The word list applies to new messages.");
  });
  const wrong = (name: string) => form.failure?.details.find(({ field }) => field.startsWith(name))?.message;
  return (
    <form class="card stack" onSubmit={form.onSubmit}>
      <p class="quiet">
        Whole words and phrases, one per line, case-insensitive, at most 1,000 in total. They apply to messages of
        users, not to those that your server sends.
      </p>
      <div class="columns">
        <Field label="Refuse" hint="The message is not sent." error={wrong("refuse")}>
          <TextArea rows={8} value={refuse} onValue={setRefuse} />
        </Field>
        <Field label="Mask" hint="Replaced with asterisks." error={wrong("mask")}>
          <TextArea rows={8} value={mask} onValue={setMask} />
        </Field>
        <Field label="Report" hint="Sent, and added to the moderation queue." error={wrong("report")}>
          <TextArea rows={8} value={report} onValue={setReport} />
        </Field>
      </div>
      <FormEnd form={form}>Save</FormEnd>
    </form>
  );
}
