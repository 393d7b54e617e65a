import type { ComponentChildren } from "preact";
import type { Live } from "../live.ts";

/** Loading, failed, empty or there: every list and record goes through this, so that none forgets a case. */
export function Shown<T>(props: {
  live: Live<T>;
  isEmpty?: (data: T) => boolean;
  empty?: ComponentChildren;
  children: (data: T) => ComponentChildren;
}) {
  const { live, isEmpty, empty, children } = props;
  const { data, error, loading, reload } = live;
  if (data === null) {
    if (loading) return <div class="loading" role="status" aria-label="Loading" />;
    return (
      <div class="note bad" role="alert">
        <p>{error?.message ?? "This could not be loaded."}</p>
        {error?.requestId && <p class="mono">{error.requestId}</p>}
        <button type="button" class="button" onClick={reload}>
          Try again
        </button>
      </div>
    );
  }
  return (
    <>
      {error && (
        <p class="note warn" role="status">
          Not up to date: {error.message}
        </p>
      )}
      {isEmpty?.(data) ? <div class="empty">{empty ?? "Nothing here yet."}</div> : children(data)}
    </>
  );
}

const TONES: Record<string, "good" | "warn" | "bad"> = {
  ACTIVE: "good",
  HEALTHY: "good",
  LIVE: "good",
  CONNECTED: "good",
  DELIVERED: "good",
  ok: "good",
  excellent: "good",
  CREATED: "warn",
  DRAINING: "warn",
  PENDING: "warn",
  CONNECTING: "warn",
  RECONNECTING: "warn",
  degraded: "warn",
  poor: "warn",
  UNHEALTHY: "bad",
  FAILED: "bad",
  DISABLED: "bad",
  REVOKED: "bad",
  down: "bad",
  lost: "bad",
};

/** A state, by its name. */
export function Badge({ children }: { children: string }) {
  return <span class={`badge ${TONES[children] ?? ""}`}>{children}</span>;
}

export function PageHead({ title, children }: { title: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="page-head">
      <h1>{title}</h1>
      <div class="actions">{children}</div>
    </header>
  );
}
