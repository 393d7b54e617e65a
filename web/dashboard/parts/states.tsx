import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Polled } from "../live.ts";

/** Shows the loading, failed, empty or loaded state of data. */
export function Loaded<T>(props: {
  live: Polled<T>;
  isEmpty?: (data: T) => boolean;
  empty?: ComponentChildren;
  children: (data: T) => ComponentChildren;
}) {
  const { live, isEmpty, empty, children } = props;
  const { data, error, loading, reload } = live;
  if (data === null) {
    if (loading) return <div class="loading" role="status" aria-label="Loading" />;
    if (error?.status === 404)
      return (
        <>
          <PageHead title="Not found" />
          <div class="empty" role="alert">
            <p>{error.message}</p>
            <p>It may have been deleted, or it belongs to another project or environment.</p>
            <p class="mono small">{error.requestId}</p>
          </div>
        </>
      );
    return (
      <div class="note bad stack" role="alert">
        <p>{error?.message ?? "This could not be loaded."}</p>
        {error?.requestId && <p class="mono">{error.requestId}</p>}
        <div>
          <button type="button" class="button" onClick={reload}>
            Try again
          </button>
        </div>
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
  READY: "good",
  ok: "good",
  passed: "good",
  online: "good",
  up: "good",
  excellent: "good",
  good: "good",
  CREATED: "warn",
  DRAINING: "warn",
  PENDING: "warn",
  RUNNING: "warn",
  CONNECTING: "warn",
  RECONNECTING: "warn",
  INTERRUPTED: "warn",
  degraded: "warn",
  slow: "warn",
  behind: "warn",
  away: "warn",
  muted: "warn",
  poor: "warn",
  PRODUCTION: "bad",
  RECORDING: "bad",
  UNHEALTHY: "bad",
  FAILED: "bad",
  DISABLED: "bad",
  REVOKED: "bad",
  deleted: "bad",
  failed: "bad",
  down: "bad",
  lost: "bad",
  silent: "bad",
};

/** A badge, coloured by the state's name. */
export function Badge({ children }: { children: string }) {
  return <span class={`badge ${TONES[children] ?? ""}`}>{humanize(children)}</span>;
}

/** Turns `ICE_ERROR` into words. */
export function humanize(name: string): string {
  const text = name.replaceAll("_", " ").toLowerCase();
  const spelled = text.replace(/\b(?:api|ice|turn|sfu|ok|rtt|sdk)\b/g, (letters) => letters.toUpperCase());
  return spelled.charAt(0).toUpperCase() + spelled.slice(1);
}

type PageHeadProps = { title: string; badge?: string; children?: ComponentChildren };

export function PageHead({ title, badge, children }: PageHeadProps) {
  useEffect(() => {
    document.title = `${title} · Stoa`;
  }, [title]);
  return (
    <header class="page-head">
      <h1>
        {title} {badge !== undefined && <Badge>{badge}</Badge>}
      </h1>
      <div class="actions">{children}</div>
    </header>
  );
}

/** A list of names and values; an unknown value is a dash. */
export function Details({ items }: { items: [name: string, value: ComponentChildren][] }) {
  return (
    <dl class="facts">
      {items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value ?? "–"}</dd>
        </div>
      ))}
    </dl>
  );
}

type FigureProps = { label: string; value: ComponentChildren; href?: string; children?: ComponentChildren };

/** A key figure. */
export function Figure({ label, value, href, children }: FigureProps) {
  const inside = (
    <>
      <span class="quiet">{label}</span>
      <span class="figure">{value}</span>
      {children !== undefined && <span class="quiet small">{children}</span>}
    </>
  );
  return (
    <li>
      {href === undefined ? (
        <div class="card">{inside}</div>
      ) : (
        <a class="card" href={href}>
          {inside}
        </a>
      )}
    </li>
  );
}
