import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { ReactNode } from "react";

interface ConfirmationProps {
  // The name of the action, which is on its button too.
  title: string;
  busy: boolean;
  onConfirm: () => Promise<void>;
  onCancel: () => void;
  children: ReactNode;
}

// Asks whether to do something that takes long, costs something, or stops work.
export function Confirmation({ title, busy, onConfirm, onCancel, children }: ConfirmationProps) {
  return (
    <Modal
      visible
      header={title}
      closeAriaLabel="Close"
      onDismiss={onCancel}
      footer={
        <Box float="right">
          <SpaceBetween direction="horizontal" size="xs">
            <Button variant="link" onClick={onCancel}>
              Back
            </Button>
            <Button variant="primary" loading={busy} onClick={() => void onConfirm()}>
              {title}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      {children}
    </Modal>
  );
}
