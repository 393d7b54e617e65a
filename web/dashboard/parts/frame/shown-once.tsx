import { CodeBlock } from "../code.tsx";
import { Dialog } from "../dialog.tsx";

type ShownOnceProps = { title: string; secret: string; label: string; onClose: () => void };

/** Shows a secret that cannot be shown again. */
export function ShownOnce({ title, secret, label, onClose }: ShownOnceProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="stack">
        <p>This is the only time it is shown. Keep it on your server, never in a page.</p>
        <CodeBlock text={secret} label={label} />
        <div class="actions">
          <button type="button" class="button primary" onClick={onClose}>
            I have copied it
          </button>
        </div>
      </div>
    </Dialog>
  );
}
