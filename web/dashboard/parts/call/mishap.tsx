import { useProject } from "../../project.ts";
import { Badge, words } from "../states.tsx";
import { Ago } from "../time.tsx";

type MishapProps = {
  error: {
    category: string;
    code: string;
    message: string;
    likelyCause: string;
    suggestedAction: string;
    occurredAt: string;
    connectionId: string | null;
  };
  /** On a page about something else, a way to the connection. */
  linked?: boolean;
};

/** Something that went wrong, and what to do about it. */
export function Mishap({ error, linked = false }: MishapProps) {
  const { path } = useProject();
  const { category, code, message, likelyCause, suggestedAction, occurredAt, connectionId } = error;
  return (
    <article class="card mishap">
      <div class="row between">
        <span class="row">
          <b>{message}</b>
          <Badge>{words(category)}</Badge>
          <code class="small">{code}</code>
        </span>
        <span class="quiet small">
          <Ago at={occurredAt} />
        </span>
      </div>
      <p>{likelyCause}</p>
      <p>
        <b>What to do:</b> {suggestedAction}
      </p>
      {linked && connectionId && (
        <p class="small">
          <a href={path(`connections/${connectionId}`)}>See the connection</a> ·{" "}
          <a href={path(`calls?connectionId=${encodeURIComponent(connectionId)}`)}>See the call</a>
        </p>
      )}
    </article>
  );
}
