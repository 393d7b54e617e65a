import { useProject } from "../../project.ts";
import { Badge, humanize } from "../states.tsx";
import { Ago } from "../time.tsx";

type ErrorCardProps = {
  error: {
    category: string;
    code: string;
    message: string;
    likelyCause: string;
    suggestedAction: string;
    occurredAt: string;
    connectionId: string | null;
  };
  /** Whether to link to the connection and the call. */
  linked?: boolean;
};

/** An error with its likely cause and what to do about it. */
export function ErrorCard({ error, linked = false }: ErrorCardProps) {
  const { path } = useProject();
  const { category, code, message, likelyCause, suggestedAction, occurredAt, connectionId } = error;
  return (
    <article class="card error-card">
      <div class="row between">
        <span class="row">
          <b>{message}</b>
          <Badge>{humanize(category)}</Badge>
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
