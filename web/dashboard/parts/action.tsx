import { useState } from "preact/hooks";
import { attempt } from "./toast.tsx";

type ActionProps = {
  run: () => Promise<unknown>;
  /** The message after success. */
  done?: string;
  tone?: "primary" | "danger" | "quiet";
  label?: string;
  disabled?: boolean;
  children: string;
};

/** A button that runs an action on the server, once at a time, and reports its result. */
export function Action({ run, done, tone, label, disabled = false, children }: ActionProps) {
  const [busy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    await attempt(run, done);
    setBusy(false);
  };
  return (
    <button
      type="button"
      class={`button ${tone ?? ""}`}
      aria-label={label}
      disabled={busy || disabled}
      onClick={() => void act()}
    >
      {children}
    </button>
  );
}
