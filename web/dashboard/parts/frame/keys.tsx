import { useEffect, useState } from "preact/hooks";
import { Dialog } from "../dialog.tsx";

const KEYS: [key: string, what: string][] = [
  ["Ctrl K", "Go to a page, room, call or person"],
  ["/", "Search the list on this page"],
  ["?", "Show the keyboard shortcuts"],
  ["Esc", "Close a dialog"],
];

/** Keyboard shortcuts on every page, inactive while typing. */
export function Keys() {
  const [help, setHelp] = useState(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.closest("input, textarea, select, dialog");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") setHelp(true);
      const search = document.querySelector<HTMLInputElement>("input[type=search]");
      if (event.key === "/" && search) {
        event.preventDefault();
        search.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  if (!help) return null;
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => setHelp(false)}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
