import { useState } from "preact/hooks";
import { useProject } from "../../project.ts";
import { Badge, humanize } from "../states.tsx";
import { Ago } from "../time.tsx";

type ConnectionError = {
  id: string;
  category: string;
  code: string;
  message: string;
  likelyCause: string;
  suggestedAction: string;
  occurredAt: string;
  connectionId: string | null;
};
/** Identical errors, newest first. */
export type ErrorGroup<E extends ConnectionError = ConnectionError> = [E, ...E[]];

/** Groups errors that say the same; the groups keep the order of their newest error. */
export function groupErrors<E extends ConnectionError>(errors: readonly E[]): ErrorGroup<E>[] {
  const groups = new Map<string, ErrorGroup<E>>();
  for (const error of errors) {
    const { category, code, message, likelyCause, suggestedAction } = error;
    const key = JSON.stringify([category, code, message, likelyCause, suggestedAction]);
    const group = groups.get(key);
    if (group) group.push(error);
    else groups.set(key, [error]);
  }
  return [...groups.values()];
}

const SHOWN_AT_FIRST = 3;

type ErrorCardProps = {
  group: ErrorGroup;
  /** Whether to link to the connections and calls. */
  linked?: boolean;
};

/** Identical errors as one, with their number, the likely cause and what to do about it. */
export function ErrorCard({ group, linked = false }: ErrorCardProps) {
  const [all, setAll] = useState(false);
  const [{ category, code, message, likelyCause, suggestedAction, occurredAt }] = group;
  const sentences = [...new Set([likelyCause, suggestedAction])].filter((text) => text !== message);
  const shown = all ? group : group.slice(0, SHOWN_AT_FIRST);
  return (
    <article class="card error-card">
      <div class="row between">
        <span class="row">
          <b>{message}</b>
          {group.length > 1 && <span class="badge">{group.length} times</span>}
          <Badge>{humanize(category)}</Badge>
          <code class="small">{code}</code>
        </span>
        <span class="quiet small">
          {group.length > 1 && "last "}
          <Ago at={occurredAt} />
        </span>
      </div>
      {sentences.map((text) => (
        <p key={text}>
          {text === suggestedAction && <b>What to do: </b>}
          {text}
        </p>
      ))}
      {linked && (
        <ul class="occurrences small">
          {shown.map((error) => (
            <Occurrence key={error.id} error={error} dated={group.length > 1} />
          ))}
          {shown.length < group.length && (
            <li>
              <button type="button" class="link" onClick={() => setAll(true)}>
                Show all {group.length}
              </button>
            </li>
          )}
        </ul>
      )}
    </article>
  );
}

function Occurrence({ error: { connectionId, occurredAt }, dated }: { error: ConnectionError; dated: boolean }) {
  const { path } = useProject();
  if (connectionId === null)
    return dated ? (
      <li>
        <Ago at={occurredAt} />
      </li>
    ) : null;
  return (
    <li>
      {dated && (
        <>
          <Ago at={occurredAt} />:{" "}
        </>
      )}
      <a href={path(`connections/${connectionId}`)}>Connection</a> ·{" "}
      <a href={path(`calls?connectionId=${encodeURIComponent(connectionId)}`)}>Call</a>
    </li>
  );
}
