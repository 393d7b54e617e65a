import { signal } from "@preact/signals";
import { toApiFailure } from "../live.ts";

type Link = { href: string; label: string };
type Toast = { id: number; kind: "good" | "bad" | "note"; text: string; requestId: string | null; link: Link | null };

const toasts = signal<Toast[]>([]);
let nextId = 1;

function show(kind: Toast["kind"], text: string, requestId: string | null, link: Link | null = null): void {
  const id = nextId++;
  toasts.value = [...toasts.value, { id, kind, text, requestId, link }];
  if (kind === "good") setTimeout(() => dismiss(id), 4_000);
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function toastDone(text: string): void {
  show("good", text, null);
}

/** A toast with a link, which stays until it is dismissed or followed. */
export function toastNote(text: string, link: Link): void {
  show("note", text, null, link);
}

/** An error toast with the request's id for the server's log; it stays until it is dismissed. */
export function toastError(error: unknown): void {
  const { message, requestId } = toApiFailure(error);
  show("bad", message, requestId);
}

/** Runs an action and shows its success or error as a toast; resolves with whether it succeeded. */
export async function attempt(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
    if (done !== undefined) toastDone(done);
    return true;
  } catch (error) {
    toastError(error);
    return false;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, kind, text, requestId, link }) => (
        <div key={id} class={`toast ${kind}`}>
          <div>
            {text}
            {link && (
              <div>
                <a href={link.href} onClick={() => dismiss(id)}>
                  {link.label}
                </a>
              </div>
            )}
            {requestId !== null && <div class="mono quiet">{requestId}</div>}
          </div>
          <button type="button" class="button quiet" aria-label="Dismiss" onClick={() => dismiss(id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
